package snapshot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// Log is what a replay asks of the log.
type Log interface {
	State(ctx context.Context) (streams.State, error)
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}

// ErrNotEmpty means that a replay was pointed at a directory with something in
// it. A replay proves what the log alone says, so it starts from nothing and
// never overwrites.
var ErrNotEmpty = errors.New("directory is not empty: a replay needs an empty or a new one")

// Result is what a replay came to: the store digest at a log sequence, which
// equals that of any worker at the same sequence (docs/design.md#what-we-promise, 5).
type Result struct {
	Seq    uint64 `json:"seq"`
	Rows   int    `json:"rows"`
	Digest string `json:"digest"` // 64 hex digits
}

// Progress is called with how far a replay is, in events, and its mean rate in events
// per second.
type Progress func(done, total uint64, rate float64)

// Replay folds the whole log, up to its head when Replay began, into a new
// read model in dir, and leaves it there, closed. progress may be nil.
func Replay(ctx context.Context, log Log, dir string, opt projector.Options, progress Progress) (Result, error) {
	state, err := log.State(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("replay: read the log's head: %w", err)
	}
	r, err := Begin(log, dir, opt)
	if err != nil {
		return Result{}, err
	}
	err = r.FoldTo(ctx, state.Last, progress)
	var res Result
	if err == nil {
		res, err = r.Result(ctx)
	}
	return res, errors.Join(err, r.Close())
}

// Replayed is a read model that is being folded from the log, apart from any
// worker's. Close it.
type Replayed struct {
	log       Log
	first     uint64
	store     *projector.Projector
	farBehind uint64 // events from which on the fold is in bulk
}

// Begin makes the read model of an empty log in dir, which must be empty or
// new; FoldTo takes it on from there.
func Begin(log Log, dir string, opt projector.Options) (*Replayed, error) {
	if err := requireEmpty(dir); err != nil {
		return nil, err
	}
	return begin(log, dir, opt)
}

func begin(log Log, dir string, opt projector.Options) (*Replayed, error) {
	opt.Apart = true
	store, err := projector.Open(dir, opt)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return &Replayed{log: log, first: max(opt.First, 1), store: store, farBehind: projector.FarBehind}, nil
}

// Store is the read model as far as it was folded.
func (r *Replayed) Store() *projector.Projector { return r.store }

// Close leaves the read model in its directory.
func (r *Replayed) Close() error { return r.store.Close() }

// Result says what the fold came to.
func (r *Replayed) Result(ctx context.Context) (Result, error) {
	d, err := r.store.Digest(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("replay: digest: %w", err)
	}
	return Result{Seq: d.Seq, Rows: d.Rows, Digest: hex.EncodeToString(d.Sum[:])}, nil
}

func requireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("replay: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("replay into %s: %w", dir, ErrNotEmpty)
	}
	return nil
}

// PastError means that a log does not reach as far as a replay was to go, or
// that the read model stands beyond it already.
type PastError struct{ Detail string }

// Error says how far they go.
func (e *PastError) Error() string { return e.Detail }

// FoldTo folds the log up to and including sequence until, from where the read
// model stands. Below the log's first sequence there is nothing to fold. It
// fails with *PastError where it cannot stand at until. progress may be nil.
func (r *Replayed) FoldTo(ctx context.Context, until uint64, progress Progress) error {
	at := max(r.store.Applied(), r.first-1)
	switch {
	case until == at, until < r.first && r.store.Applied() == 0:
		return nil
	case until < at:
		return &PastError{fmt.Sprintf("replay: the read model stands at %d, beyond %d: fold from the first event, or from an earlier checkpoint", at, until)}
	}
	state, err := r.log.State(ctx)
	if err != nil {
		return fmt.Errorf("replay: read the log's head: %w", err)
	}
	if state.Last < until {
		return &PastError{fmt.Sprintf("replay: the log ends at %d, before %d", state.Last, until)}
	}
	if whole, ok := r.log.(projector.Log); ok && until-at >= r.farBehind {
		return r.rebuild(ctx, whole, at, until, progress)
	}
	return r.follow(ctx, at, until, progress)
}

// rebuild folds (from, until] in bulk.
func (r *Replayed) rebuild(ctx context.Context, log projector.Log, from, until uint64, progress Progress) error {
	watched := watchedLog{log, func(time.Duration) {}}
	if progress != nil {
		watched.tell = func(took time.Duration) {
			if done := max(r.store.Applied(), from) - from; done > 0 {
				progress(done, until-from, float64(done)/max(took.Seconds(), 1e-9))
			}
		}
	}
	if err := r.store.Rebuild(ctx, watched, until); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// watchedLog tells of every batch that was read, and how long it is since the
// first.
type watchedLog struct {
	projector.Log
	tell func(took time.Duration)
}

// Follow reads on.
func (l watchedLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		began := time.Now()
		for msgs, err := range l.Log.Follow(ctx, from) {
			l.tell(time.Since(began))
			if !yield(msgs, err) {
				return
			}
		}
	}
}

// follow folds (from, until], all of which the log has.
func (r *Replayed) follow(ctx context.Context, from, until uint64, progress Progress) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends Follow
	total := until - from
	start := time.Now()
	for msgs, err := range r.log.Follow(ctx, from+1) {
		if err != nil {
			return fmt.Errorf("replay: follow the log: %w", err)
		}
		for len(msgs) > 0 && msgs[len(msgs)-1].Seq > until {
			msgs = msgs[:len(msgs)-1]
		}
		if len(msgs) == 0 {
			break // a hole reaches beyond until
		}
		if err := r.store.Apply(msgs); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		done := msgs[len(msgs)-1].Seq - from
		if progress != nil {
			progress(done, total, float64(done)/max(time.Since(start).Seconds(), 1e-9))
		}
		if done == total {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return fmt.Errorf("replay: the log ended before sequence %d", until)
}

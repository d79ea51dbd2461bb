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

	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
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
// equals that of any worker at the same sequence (design section 12, promise 5).
type Result struct {
	Seq    uint64 `json:"seq"`
	Rows   int    `json:"rows"`
	Digest string `json:"digest"` // 64 hex digits
}

// Progress is told how far a replay is, in events, and its mean rate in events
// per second.
type Progress func(done, total uint64, rate float64)

// Replay folds the whole log, up to its head when Replay began, into a new
// read model in dir, and leaves it there, closed. progress may be nil.
func Replay(ctx context.Context, log Log, dir string, opt projector.Options, progress Progress) (Result, error) {
	if err := requireEmpty(dir); err != nil {
		return Result{}, err
	}
	state, err := log.State(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("replay: read the log's head: %w", err)
	}
	p, err := projector.Open(dir, opt)
	if err != nil {
		return Result{}, fmt.Errorf("replay: %w", err)
	}
	res, err := fold(ctx, log, state, p, progress)
	return res, errors.Join(err, p.Close())
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

// folder is what a replay asks of the projector it fills.
type folder interface {
	Apply(msgs []streams.Message) error
	Digest(ctx context.Context) (projector.Digest, error)
}

func fold(ctx context.Context, log Log, state streams.State, p folder, progress Progress) (Result, error) {
	if state.Last >= state.First && state.Messages > 0 {
		if err := foldTo(ctx, log, state, p, progress); err != nil {
			return Result{}, err
		}
	}
	d, err := p.Digest(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("replay: digest: %w", err)
	}
	return Result{Seq: d.Seq, Rows: d.Rows, Digest: hex.EncodeToString(d.Sum[:])}, nil
}

func foldTo(ctx context.Context, log Log, state streams.State, p folder, progress Progress) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends Follow
	total := state.Last - state.First + 1
	start := time.Now()
	for msgs, err := range log.Follow(ctx, state.First) {
		if err != nil {
			return fmt.Errorf("replay: follow the log: %w", err)
		}
		for len(msgs) > 0 && msgs[len(msgs)-1].Seq > state.Last {
			msgs = msgs[:len(msgs)-1] // written after the replay began
		}
		if len(msgs) == 0 {
			return nil
		}
		if err := p.Apply(msgs); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		done := msgs[len(msgs)-1].Seq - state.First + 1
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
	return errors.New("replay: the log ended before its head")
}

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// HistoryOptions are what a History works on.
type HistoryOptions struct {
	// Dir is the directory of past read models, made when absent. What is in it and not a
	// read model of this log is removed.
	Dir string
	// Nearest is the last sequence at or before one from which the log can be folded
	// without a mark of this worker, and what begins there in a directory:
	// *streams.CompactedError where there is none.
	Nearest func(ctx context.Context, seq uint64) (Beginning, error)
	// Begins is the first sequence that the log must have: marks before it go. nil: 1.
	Begins func() uint64
	// Open opens a mark of this worker's, which stands at or before until, and is held
	// against the log.
	Open func(ctx context.Context, dir string, until uint64) (*Replayed, error)
	// Live is the worker's own read model, of which marks are made as it goes on; nil: none.
	Live   *projector.Projector
	Room   func() bool  // whether the disk has room for more; nil: it has
	Tables TableOptions // as those of the worker's own read model
	Logger *slog.Logger // nil: silent

	Most    int    // read models open at once; 0: 2
	Waiting int    // requests that may wait for one at once; 0: 8
	Marks   int    // kept on disk; 0: 32
	Every   uint64 // events between two marks; 0: 25,000
	// Idle is how long one is open that nobody asks; 0: a minute.
	Idle time.Duration
}

// Beginning is where a fold of the past may begin.
type Beginning struct {
	Seq uint64
	// Begin makes the read model in dir, which is to become one at until.
	Begin func(ctx context.Context, dir string, until uint64) (*Replayed, error)
}

// History has read models of the log as it was, folded apart from the worker's own: one
// fold at a time, the last few kept open. Safe for concurrent use.
type History struct {
	opt   HistoryOptions
	log   *slog.Logger
	marks *marks
	fold  chan struct{} // of size 1: who folds

	mu       sync.Mutex
	passages map[uint64]*passage
	open     []*Moment // last used first
	waiting  int
	made     int // directories
}

// NewHistory makes it. Close it.
func NewHistory(opt HistoryOptions) (*History, error) {
	opt.Most, opt.Waiting, opt.Marks = cmp.Or(opt.Most, 2), cmp.Or(opt.Waiting, 8), cmp.Or(opt.Marks, 32)
	opt.Every, opt.Idle = cmp.Or(opt.Every, 25_000), cmp.Or(opt.Idle, time.Minute)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, err
	}
	m, err := openMarks(opt.Dir, opt.Marks)
	if err != nil {
		return nil, err
	}
	return &History{opt: opt, log: opt.Logger, marks: m, fold: make(chan struct{}, 1), passages: map[uint64]*passage{}}, nil
}

// Moment is the read model as the log was at a sequence.
type Moment struct {
	Seq      uint64
	Store    *projector.Projector
	Composer *Composer
	Tables   *Tables
	Blocks   *Blocks

	dir    string
	users  int
	used   time.Time
	closed bool // once nobody uses it
}

// At is the read model as the log was at a sequence, which the log must have. Call done
// once it is read. The error is *streams.CompactedError before the log's origin, a
// *CrowdedError while too many wait, NoRoomError, and what ended ctx: nothing is folded any
// more for a ctx that ended, unless others wait for the same.
func (h *History) At(ctx context.Context, seq uint64) (m *Moment, done func(), err error) {
	for {
		h.mu.Lock()
		if m = h.known(seq); m != nil {
			h.mu.Unlock()
			return m, func() { h.leave(m) }, nil
		}
		p, err := h.board(seq)
		h.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		if err := h.await(ctx, p); err != nil {
			return nil, nil, err
		}
	}
}

// known finds an open one, with h locked, and uses it.
func (h *History) known(seq uint64) *Moment {
	i := slices.IndexFunc(h.open, func(m *Moment) bool { return m.Seq == seq })
	if i < 0 {
		return nil
	}
	m := h.open[i]
	h.open = slices.Insert(slices.Delete(h.open, i, i+1), 0, m)
	m.users++
	return m
}

func (h *History) leave(m *Moment) {
	h.mu.Lock()
	m.users--
	m.used = time.Now()
	last := m.closed && m.users == 0
	h.mu.Unlock()
	if last {
		h.discard(m)
	}
}

// let lets go of open ones, with h locked: those that drop says. It returns those that
// nobody uses, to be discarded.
func (h *History) let(drop func(place int, m *Moment) bool) (unused []*Moment) {
	stay := make([]*Moment, 0, len(h.open))
	for i, m := range h.open {
		if !drop(i, m) {
			stay = append(stay, m)
			continue
		}
		m.closed = true
		if m.users == 0 {
			unused = append(unused, m)
		}
	}
	h.open = stay
	return unused
}

func (h *History) discard(all ...*Moment) {
	for _, m := range all {
		if err := errors.Join(m.Store.Close(), os.RemoveAll(m.dir)); err != nil {
			h.log.Warn("a read model of the past was not removed", "seq", m.Seq, "error", err)
		}
	}
}

// make waits for its turn, and folds.
func (h *History) make(ctx context.Context, seq uint64) (*Moment, error) {
	select {
	case h.fold <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.fold }()
	if h.opt.Room != nil && !h.opt.Room() {
		return nil, NoRoomError{}
	}
	h.mu.Lock()
	h.made++
	dir := filepath.Join(h.opt.Dir, "open-"+strconv.Itoa(h.made))
	h.mu.Unlock()
	began := time.Now()
	r, err := h.begin(ctx, seq, dir)
	if err != nil {
		return nil, errors.Join(roomless(err), os.RemoveAll(dir))
	}
	if err := h.foldTo(ctx, r, seq); err != nil {
		return nil, errors.Join(roomless(errors.Join(err, r.Close())), os.RemoveAll(dir))
	}
	h.log.Debug("the past is folded", "seq", seq, "seconds", time.Since(began).Seconds())
	tables := NewTables(r.store, h.opt.Tables)
	return &Moment{
		Seq: seq, Store: r.store, Composer: NewComposer(Options{CacheBytes: h.opt.Tables.CacheBytes}), Tables: tables, Blocks: NewBlocks(tables),
		dir: dir, used: time.Now(),
	}, nil
}

// roomless is err, or that the disk was full.
func roomless(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return NoRoomError{}
	}
	return err
}

// begin opens the nearest mark at or before seq, or begins elsewhere where that is nearer.
// A mark that cannot be used, or is of another log, goes.
func (h *History) begin(ctx context.Context, seq uint64, dir string) (*Replayed, error) {
	elsewhere, err := h.opt.Nearest(ctx, seq)
	if err != nil {
		return nil, err
	}
	for at := h.marks.nearest(seq); at > elsewhere.Seq; at = h.marks.nearest(seq) {
		r, err := h.openMark(ctx, at, dir, seq)
		if err == nil || ctx.Err() != nil || streams.Leaderless(err) { // the log, not the mark
			return r, err
		}
		h.log.Warn("a mark of the past cannot be used and is removed", "seq", at, "error", err)
		if err := errors.Join(h.marks.forget(at), os.RemoveAll(dir)); err != nil {
			return nil, err
		}
	}
	return elsewhere.Begin(ctx, dir, seq)
}

func (h *History) openMark(ctx context.Context, at uint64, dir string, until uint64) (*Replayed, error) {
	if err := h.marks.copyTo(at, dir); err != nil {
		return nil, err
	}
	r, err := h.opt.Open(ctx, dir, until)
	if err != nil {
		return nil, err
	}
	if have := r.store.Applied(); have != at {
		return nil, errors.Join(fmt.Errorf("it stands at %d", have), r.Close())
	}
	return r, nil
}

// farEnough is from how many events on a fold of the past is in bulk.
const farEnough = 2000

// foldTo folds up to seq, and leaves marks on the way.
func (h *History) foldTo(ctx context.Context, r *Replayed, seq uint64) error {
	r.farBehind = min(r.farBehind, farEnough)
	for {
		at := max(r.store.Applied(), r.first-1)
		next := min(seq, at+h.opt.Every)
		if err := r.FoldTo(ctx, next, nil); err != nil {
			return err
		}
		if next-at == h.opt.Every {
			h.mark(r.store)
		}
		if next == seq {
			return nil
		}
	}
}

// mark makes one, if it can: it saves time and decides nothing.
func (h *History) mark(from *projector.Projector) {
	if err := h.marks.put(from); err != nil {
		h.log.Warn("a mark of the past was not made", "error", err)
	}
}

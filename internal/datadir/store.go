package datadir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// StoreOptions are what a read model is opened with.
type StoreOptions struct {
	Found *Found
	Conn  *streams.Conn
	Log   *streams.Log
	// Fold is the log as it is folded; nil: Log.
	Fold  projector.Log
	Store projector.Options // that tie a read model to the log; Corrupt is set by Open
	// Trust says which keys are the plane's: the origin of a log that was compacted is
	// signed by one.
	Trust snapshot.Trust
	// YesDelete has a read model of an older layout deleted once it is rebuilt.
	YesDelete bool
	Logger    *slog.Logger
}

// Store opens the read model of a data directory.
type Store struct {
	opt     StoreOptions
	dir     Dir
	log     *slog.Logger
	corrupt chan error // the open read model turned out to be damaged
}

// NewStore makes it; Prepare comes next, and Open then.
func NewStore(opt StoreOptions) *Store {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Fold == nil {
		opt.Fold = opt.Log
	}
	return &Store{opt: opt, dir: opt.Found.opt.Dir, log: opt.Logger}
}

// Prepare restores or rebuilds the read model where that is needed.
func (s *Store) Prepare(ctx context.Context) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	return s.rebuild(ctx)
}

// Open opens the read model. A damaged one is derived, so it is no loss: it is
// moved aside, once, and the log makes it anew.
func (s *Store) Open(ctx context.Context, metrics projector.Metrics) (*projector.Projector, error) {
	opened, err := s.open(metrics)
	if errors.As(err, &s.opt.Found.damaged) { // when it was read whole
		if err := s.restore(ctx); err != nil {
			return nil, err
		}
		return s.open(metrics)
	}
	return opened, err
}

func (s *Store) open(metrics projector.Metrics) (*projector.Projector, error) {
	corrupt := make(chan error, 1)
	s.corrupt = corrupt
	opt := s.opt.Store
	opt.Metrics = metrics
	opt.Corrupt = func(err error) {
		select {
		case corrupt <- err:
		default:
		}
	}
	return projector.Open(s.dir.Store(), opt)
}

// Run returns once the open read model is known to be damaged, with the reason,
// or when ctx ends: nil. The process is to end then, because a fold that went on
// would write what it cannot read; the next start makes the read model anew.
func (s *Store) Run(ctx context.Context) error {
	select {
	case err := <-s.corrupt:
		return err
	case <-ctx.Done():
		return nil
	}
}

// CatchUp keeps store, the open read model, up with the log until ctx ends. One
// that is farBehind events behind or more, as that of a new worker is, is first
// rebuilt in bulk; caught is called when it has come as far as the log went at
// the start. What nodes hear before would be overtaken batch by batch, and
// compared anew each time.
func (s *Store) CatchUp(ctx context.Context, store *projector.Projector, farBehind uint64, caught func()) error {
	var state streams.State
	err := streams.UntilAnswered(ctx, func() (err error) {
		state, err = s.opt.Log.State(ctx)
		return err
	})
	switch {
	case errors.Is(err, streams.ErrNotFound):
		err = nil // whoever follows the log says what it means that it is gone
	case err == nil && state.Last >= store.Applied()+farBehind:
		err = s.rebuildInPlace(ctx, store, state.Last)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fold the log: %w", err)
	}
	caught()
	return store.Run(ctx, s.opt.Fold)
}

func (s *Store) rebuildInPlace(ctx context.Context, store *projector.Projector, last uint64) error {
	s.log.Info("rebuilding the read model", "folded", store.Applied(), "of", last)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return store.Rebuild(ctx, s.opt.Fold, last) })
	g.Go(func() error { return logProgress(ctx, store, last, s.log) })
	return g.Wait()
}

// restore gives a worker that has no read model the newest checkpoint that is
// sound, so that it folds only what came after; a read model that is damaged is
// moved aside before. Where there is no checkpoint, or anything is wrong with all
// of them, it folds from the log's origin, or from the first event: a checkpoint saves
// time and decides nothing.
func (s *Store) restore(ctx context.Context) error {
	// A crash while one was made leaves a copy, which holds on to files that the
	// store itself has let go.
	if err := errors.Join(os.RemoveAll(s.dir.Checkpoint()), os.RemoveAll(s.dir.Compaction())); err != nil {
		return err
	}
	if err := s.putAside(); err != nil {
		return err
	}
	if err := s.dropBehind(ctx); err != nil {
		return err
	}
	if s.opt.Found.Store != nil || !absent(s.dir.Store()) || !absent(s.dir.fresh()) {
		return nil
	}
	restored, err := s.restoreNewest(ctx)
	if restored || err != nil {
		return err
	}
	return s.restoreOrigin(ctx, s.dir.Store())
}

// restoreNewest restores the newest checkpoint that is sound, if there is one.
func (s *Store) restoreNewest(ctx context.Context) (restored bool, err error) {
	c, err := snapshot.OpenCheckpoints(ctx, s.opt.Conn, s.opt.Log.Created(), false)
	if errors.Is(err, streams.ErrNotFound) {
		return false, nil
	}
	var all []snapshot.Manifest
	if err == nil {
		all, err = c.List(ctx)
	}
	if err != nil {
		s.log.Warn("checkpoints cannot be read; folding from the first event", "error", err)
		return false, ctx.Err()
	}
	for _, m := range all {
		if m.Seq < s.opt.Log.Begins() {
			continue
		}
		began := time.Now()
		err := restoreTo(ctx, c, m, s.opt.Log, s.dir.Store(), s.opt.Store)
		if err == nil {
			s.log.Info("the read model starts from a checkpoint", "seq", m.Seq, "seconds", time.Since(began).Seconds())
			return true, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		s.log.Warn("a checkpoint cannot be used; an older one, or the first event, does as well", "seq", m.Seq, "error", err)
	}
	return false, nil
}

// putAside moves a damaged read model to store.damaged, in the place of one that
// may be there: whoever wants to know what happened has the last one, and the
// disk holds no more of them.
func (s *Store) putAside() error {
	f := s.opt.Found
	if f.damaged == nil {
		return nil
	}
	aside := s.dir.Store() + ".damaged"
	if err := errors.Join(os.RemoveAll(aside), os.Rename(s.dir.Store(), aside), artifact.SyncDir(string(s.dir))); err != nil {
		return &UnusableError{"--data", err}
	}
	s.log.Warn("the read model is damaged: it is moved aside, and made anew from the log", "old", aside, "error", f.damaged.Detail)
	f.damaged, f.Store = nil, nil
	return nil
}

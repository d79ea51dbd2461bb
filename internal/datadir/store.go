package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
// of them, it folds from the first event: a checkpoint saves time and decides
// nothing.
func (s *Store) restore(ctx context.Context) error {
	// A crash while one was made leaves a copy, which holds on to files that the
	// store itself has let go.
	if err := os.RemoveAll(s.dir.Checkpoint()); err != nil {
		return err
	}
	if err := s.putAside(); err != nil {
		return err
	}
	if s.opt.Found.Store != nil || !absent(s.dir.Store()) || !absent(s.dir.fresh()) {
		return nil
	}
	c, err := snapshot.OpenCheckpoints(ctx, s.opt.Conn, s.opt.Log.Created(), false)
	if errors.Is(err, streams.ErrNotFound) {
		return nil
	}
	var all []snapshot.Manifest
	if err == nil {
		all, err = c.List(ctx)
	}
	if err != nil {
		s.log.Warn("checkpoints cannot be read; folding from the first event", "error", err)
		return ctx.Err()
	}
	for _, m := range all {
		began := time.Now()
		err := restoreTo(ctx, c, m, s.opt.Log, s.dir.Store(), s.opt.Store)
		if err == nil {
			s.log.Info("the read model starts from a checkpoint", "seq", m.Seq, "seconds", time.Since(began).Seconds())
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.log.Warn("a checkpoint cannot be used; an older one, or the first event, does as well", "seq", m.Seq, "error", err)
	}
	return nil
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

// rebuild makes the read model anew, where it has the layout of an older
// binary: beside the old one, up to the log's head, and then in its place. The
// old one is kept unless StoreOptions.YesDelete says otherwise. A crash leaves the
// old one where it was, or both beside an empty place; the next start goes on.
func (s *Store) rebuild(ctx context.Context) error {
	fresh, have := s.dir.fresh(), s.opt.Found.Store
	if have == nil {
		return s.finishSwap(fresh)
	}
	if have.Schema == projector.SchemaVersion {
		return nil
	}
	s.log.Info("rebuilding the read model: a newer binary reads another layout",
		"have", have.Schema, "want", projector.SchemaVersion, "beside", fresh)
	if err := s.foldInto(ctx, fresh); err != nil {
		return fmt.Errorf("rebuild the read model: %w", err)
	}
	old, err := s.dir.aside(have.Schema)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Rename(s.dir.Store(), old), os.Rename(fresh, s.dir.Store()), artifact.SyncDir(string(s.dir))); err != nil {
		return fmt.Errorf("put the rebuilt read model in place: %w", err)
	}
	if !s.opt.YesDelete {
		s.log.Info("the read model is rebuilt; the old one is kept, and may be deleted", "old", old)
		return nil
	}
	s.log.Info("the read model is rebuilt; the old one is deleted (--yes-delete)", "old", old)
	return os.RemoveAll(old)
}

// finishSwap puts a rebuilt store in place whose swap a crash cut in two.
func (s *Store) finishSwap(fresh string) error {
	if _, err := os.Stat(s.dir.Store()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(fresh); err != nil {
		return nil
	}
	return errors.Join(os.Rename(fresh, s.dir.Store()), artifact.SyncDir(string(s.dir)))
}

// foldInto folds the log, as far as it goes now, into a store of its own. What
// an earlier try left there is gone on from.
func (s *Store) foldInto(ctx context.Context, dir string) error {
	state, err := s.opt.Log.State(ctx)
	if err != nil {
		return err
	}
	opt := s.opt.Store
	opt.Relaxed = true // Close flushes, and the old store is there until then
	store, err := projector.Open(dir, opt)
	if errors.As(err, new(*projector.CorruptError)) { // what an earlier try left
		if err = os.RemoveAll(dir); err == nil {
			store, err = projector.Open(dir, opt)
		}
	}
	if err != nil {
		return err
	}
	last := state.Last
	if state.Messages == 0 {
		last = 0
	}
	g, gctx := errgroup.WithContext(ctx)
	run, done := context.WithCancel(gctx)
	defer done()
	g.Go(func() error { return store.Rebuild(run, s.opt.Fold, state.Last) })
	g.Go(func() error {
		defer done()
		return logProgress(gctx, store, last, s.log)
	})
	return errors.Join(g.Wait(), store.Close())
}

// logProgress waits until store has folded the log up to last, and says now and
// then how far it is.
func logProgress(ctx context.Context, store *projector.Projector, last uint64, log *slog.Logger) error {
	const logEvery = 5 * time.Second
	for {
		step, cancel := context.WithTimeout(ctx, logEvery)
		err := store.Wait(step, last)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.Info("rebuilding the read model", "folded", store.Applied(), "of", last)
	}
}

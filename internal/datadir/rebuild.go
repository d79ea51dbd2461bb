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
	"github.com/edictdev/edict/internal/streams"
)

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
	old, err := s.dir.swap(fresh, have.Schema)
	if err != nil {
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
	store, err := s.openFresh(ctx, dir)
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

// openFresh opens the store that a rebuild folds into. One that cannot be read, that another
// release began, or that the log was compacted beyond, is begun anew.
func (s *Store) openFresh(ctx context.Context, dir string) (*projector.Projector, error) {
	opt := s.opt.Store
	if !absent(dir) {
		store, err := projector.Open(dir, opt)
		if err == nil && !errors.As(s.opt.Log.Removed(ctx, store.Applied()), new(*streams.CompactedError)) {
			return store, nil
		}
		if err == nil {
			err = store.Close()
		}
		if err != nil && !errors.As(err, new(*projector.CorruptError)) && !errors.As(err, new(*projector.SchemaError)) {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := s.restoreOrigin(ctx, dir); err != nil {
		return nil, err
	}
	return projector.Open(dir, opt)
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

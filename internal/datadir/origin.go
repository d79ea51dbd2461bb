package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// behind reports whether the log removed what the read model that is here would have to
// fold next, or to be known by. A directory without one stands before the first event.
func (s *Store) behind(ctx context.Context) (bool, error) {
	if _, compacted := s.opt.Log.Origin(); !compacted || absent(s.dir.Store()) {
		return false, nil
	}
	err := s.opt.Log.Removed(ctx, s.folded())
	if errors.As(err, new(*streams.CompactedError)) {
		return true, nil
	}
	return false, err
}

// folded is how far the read model that a start found stands.
func (s *Store) folded() uint64 {
	if s.opt.Found.Store == nil {
		return 0
	}
	return s.opt.Found.Store.Stored
}

// dropBehind removes a read model that stands before the log's origin, which is derived
// and can never go on: the origin has what it would come to.
func (s *Store) dropBehind(ctx context.Context) error {
	behind, err := s.behind(ctx)
	if err != nil || !behind {
		return err
	}
	s.log.Warn("the read model stands before the log's origin: the log was compacted meanwhile, and the origin takes its place",
		"folded", s.folded(), "seq", s.opt.Log.Begins())
	if err := errors.Join(os.RemoveAll(s.dir.Store()), os.RemoveAll(s.dir.fresh()), artifact.SyncDir(string(s.dir))); err != nil {
		return &UnusableError{"--data", err}
	}
	s.opt.Found.Store = nil
	return nil
}

// restoreOrigin makes the read model in dir from the log's origin, if it has one. Without
// it nothing can be folded of such a log, so an error ends the start. Where the log is
// compacted again meanwhile, the new origin is taken.
func (s *Store) restoreOrigin(ctx context.Context, dir string) error {
	for {
		o, compacted := s.opt.Log.Origin()
		if !compacted {
			return nil
		}
		began := time.Now()
		c, err := snapshot.OpenOriginStore(ctx, s.opt.Conn, s.opt.Log.Created(), o)
		if err == nil {
			err = s.originTo(ctx, c, o, dir)
		}
		if err == nil {
			s.log.Info("the read model starts from the log's origin", "seq", o.Seq, "seconds", time.Since(began).Seconds())
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if _, lerr := s.opt.Log.State(ctx); lerr != nil {
			return errors.Join(err, lerr)
		}
		_ = s.opt.Log.Removed(ctx, o.Seq) // learns of a newer one
		if s.opt.Log.Begins() == o.Seq {
			return err
		}
	}
}

// originTo restores an origin beside dir, and gives it its name when it is sound.
func (s *Store) originTo(ctx context.Context, c *snapshot.Checkpoints, o streams.Origin, dir string) error {
	return beside(dir, func(beside string) error {
		return c.RestoreOrigin(ctx, o, s.opt.Trust, s.opt.Log, beside, s.opt.Store)
	})
}

// beside has restore make a read model, and puts it in its place.
func beside(dir string, restore func(beside string) error) error {
	beside := dir + ".restoring"
	if err := os.RemoveAll(beside); err != nil { // of a crash
		return fmt.Errorf("restore: %w", err)
	}
	if err := restore(beside); err != nil {
		return err
	}
	return placed(beside, dir)
}

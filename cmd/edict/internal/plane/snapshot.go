package plane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/edictdev/edict/api"
	"github.com/edictdev/edict/snapshot"
	"github.com/edictdev/edict/streams"
)

// SnapshotOptions say when a worker makes checkpoints by itself: once the newest
// is so old, or so many events behind. Both zero: never.
type SnapshotOptions struct {
	Every  time.Duration
	Events uint64
	Keep   int // checkpoints kept; 0 is 2
}

// keep is how many checkpoints stay.
func (o SnapshotOptions) keep() int {
	if o.Keep == 0 {
		const usual = 2
		return usual
	}
	return o.Keep
}

// restore gives a worker that has no read model the newest checkpoint that is
// sound, so that it folds only what came after; one that is damaged is moved
// aside before. Where there is none, or
// anything is wrong with all of them, it folds from the first event: a
// checkpoint saves time and decides nothing.
func (p *Plane) restore(ctx context.Context) error {
	// A crash while one was made leaves a copy, which holds on to files that the
	// store itself has let go.
	if err := os.RemoveAll(p.scratchDir()); err != nil {
		return err
	}
	if err := p.putAside(); err != nil {
		return err
	}
	if p.found != nil || !absent(p.storeDir()) || !absent(p.storeDir()+".new") {
		return nil
	}
	c, err := snapshot.OpenCheckpoints(ctx, p.conn, p.stream.Created(), false)
	if errors.Is(err, streams.ErrNotFound) {
		return nil
	}
	var all []snapshot.Manifest
	if err == nil {
		all, err = c.List(ctx)
	}
	if err != nil {
		p.log.Warn("checkpoints cannot be read; folding from the first event", "error", err)
		return ctx.Err()
	}
	for _, m := range all {
		began := time.Now()
		err := RestoreStore(ctx, c, m, p.stream, p.storeDir(), p.storeOptions())
		if err == nil {
			p.log.Info("the read model starts from a checkpoint", "seq", m.Seq, "seconds", time.Since(began).Seconds())
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.log.Warn("a checkpoint cannot be used; an older one, or the first event, does as well", "seq", m.Seq, "error", err)
	}
	return nil
}

// scratchDir is where a checkpoint is copied to before it is sent.
func (p *Plane) scratchDir() string { return p.storeDir() + ".checkpoint" }

// absent reports whether there is nothing at path; an empty directory is made
// nothing.
func absent(path string) bool {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		err = os.Remove(path) // fails where there is something in it
		return err == nil
	}
	return errors.Is(err, fs.ErrNotExist)
}

// saveSnapshot makes a checkpoint of this worker's read model.
func (p *Plane) saveSnapshot(ctx context.Context) (snapshot.Manifest, error) {
	if !p.saving.TryLock() {
		return snapshot.Manifest{}, api.ErrSnapshotRunning
	}
	defer p.saving.Unlock()
	c, err := snapshot.OpenCheckpoints(ctx, p.conn, p.stream.Created(), true)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	began := time.Now()
	m, err := c.Create(ctx, p.store, p.scratchDir(), p.opt.Name, p.opt.Snapshots.keep())
	if err == nil {
		p.log.Info("a checkpoint is made", "seq", m.Seq, "bytes", m.Bytes, "seconds", time.Since(began).Seconds())
	}
	return m, err
}

// listSnapshots lists the checkpoints of this log, newest first.
func (p *Plane) listSnapshots(ctx context.Context) ([]snapshot.Manifest, error) {
	c, err := snapshot.OpenCheckpoints(ctx, p.conn, p.stream.Created(), false)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.List(ctx)
}

// snapshotLook is how often it is looked whether a checkpoint is due.
const snapshotLook = 5 * time.Second

// keepSnapshots makes checkpoints as they are due, until ctx ends. Of all
// workers the one that publishes partition 0 does.
func (p *Plane) keepSnapshots(ctx context.Context) error {
	opt := p.opt.Snapshots
	if opt.Every == 0 && opt.Events == 0 {
		return nil
	}
	pause := snapshotLook
	if opt.Every > 0 {
		pause = min(pause, opt.Every)
	}
	every(ctx, pause, func() bool {
		due, err := p.snapshotDue(ctx)
		if err == nil && due {
			_, err = p.saveSnapshot(ctx)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, api.ErrSnapshotRunning) {
			p.log.Warn("a checkpoint could not be made; trying again", "error", err)
		}
		return true
	})
	return nil
}

func (p *Plane) snapshotDue(ctx context.Context) (bool, error) {
	if !p.leads() || p.disk.Writable() != nil {
		return false, nil
	}
	list, err := p.listSnapshots(ctx)
	if err != nil {
		return false, fmt.Errorf("list checkpoints: %w", err)
	}
	var newest snapshot.Manifest
	if len(list) > 0 {
		newest = list[0]
	}
	opt, behind := p.opt.Snapshots, p.store.Applied()-min(newest.Seq, p.store.Applied())
	return behind > 0 && (opt.Events > 0 && behind >= opt.Events || opt.Every > 0 && time.Since(newest.Time) >= opt.Every), nil
}

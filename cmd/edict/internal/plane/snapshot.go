package plane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
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
	m, err := c.Create(ctx, p.store, p.dir.Checkpoint(), p.opt.Name, p.opt.Snapshots.keep())
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

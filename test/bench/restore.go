package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
)

// restoreLine sets the restore of a checkpoint, verified to its digest, beside
// the rebuild that it saves, both in seconds.
func restoreLine(ctx context.Context, e *env, r *rig, last uint64, want projector.Digest, rebuilt samples) (*line, error) {
	c, err := snapshot.OpenCheckpoints(ctx, r.conn, r.log.Created(), true)
	if err != nil {
		return nil, err
	}
	m, made, err := checkpoint(ctx, r, c, last)
	if err != nil {
		return nil, err
	}
	if m.Seq != want.Seq || m.Digest != hex.EncodeToString(want.Sum[:]) {
		return nil, fmt.Errorf("the checkpoint stands at %d with digest %s; the log gives %x at %d", m.Seq, m.Digest, want.Sum, want.Seq)
	}
	var took samples
	for round := range e.rounds() {
		dir := filepath.Join(r.dir, fmt.Sprintf("restored-%d", round))
		began := time.Now()
		if err := c.Restore(ctx, m, r.log, dir, r.options()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
		if err := removeAll(dir); err != nil {
			return nil, err
		}
	}
	var seconds samples
	for _, rate := range rebuilt {
		seconds = append(seconds, float64(last)/rate)
	}
	l := figure("checkpoint restored", "s", took).beside("the same log rebuilt in bulk", seconds).ratioAtMost(0.2)
	return l.note("the checkpoint, %s MB, was made in %s s", grouped(int64(m.Bytes>>20)), short(made.Seconds())), nil
}

// checkpoint folds the log into a store of its own and saves that.
func checkpoint(ctx context.Context, r *rig, c *snapshot.Checkpoints, last uint64) (m snapshot.Manifest, took time.Duration, err error) {
	dir := filepath.Join(r.dir, "checkpointed")
	p, err := projector.Open(dir, r.options())
	if err != nil {
		return m, 0, err
	}
	if err = p.Rebuild(ctx, r.log, last); err == nil {
		began := time.Now()
		m, err = c.Create(ctx, p, filepath.Join(r.dir, "scratch"), "bench", 1)
		took = time.Since(began)
	}
	return m, took, errors.Join(err, p.Close(), removeAll(dir))
}

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// ErrRunning means that this worker is making a checkpoint already.
var ErrRunning = errors.New("this worker is making a checkpoint already")

// Schedule says when a worker makes checkpoints by itself: once the newest is so
// old, or so many events behind. Both zero: never.
type Schedule struct {
	Every  time.Duration
	Events uint64
	Keep   int // checkpoints kept; 0 is 2
}

// CheckpointerOptions are what a Checkpointer works on.
type CheckpointerOptions struct {
	Conn     *streams.Conn
	Created  time.Time // of the log
	Store    *projector.Projector
	Scratch  string // directory of a copy while it is made
	Worker   string // name of this one
	Schedule Schedule
	// Due reports whether this worker may make one by itself now: of all workers
	// one does, and only while its disk takes writes.
	Due func() bool
	Log *slog.Logger
}

// Checkpointer makes checkpoints of a worker's read model, one at a time.
type Checkpointer struct {
	opt    CheckpointerOptions
	log    *slog.Logger
	saving sync.Mutex
}

// NewCheckpointer makes it; Run makes checkpoints as they are due.
func NewCheckpointer(opt CheckpointerOptions) *Checkpointer {
	const keep = 2
	opt.Schedule.Keep = cmp.Or(opt.Schedule.Keep, keep)
	return &Checkpointer{opt: opt, log: opt.Log}
}

// Close waits for a checkpoint that is being made, and lets nobody make another:
// the store may be closed then.
func (c *Checkpointer) Close() { c.saving.Lock() }

// Save makes a checkpoint; ErrRunning while another is made.
func (c *Checkpointer) Save(ctx context.Context) (Manifest, error) {
	if !c.saving.TryLock() {
		return Manifest{}, ErrRunning
	}
	defer c.saving.Unlock()
	all, err := OpenCheckpoints(ctx, c.opt.Conn, c.opt.Created, true)
	if err != nil {
		return Manifest{}, err
	}
	began := time.Now()
	m, err := all.Create(ctx, c.opt.Store, c.opt.Scratch, c.opt.Worker, c.opt.Schedule.Keep)
	if err == nil {
		c.log.Info("a checkpoint is made", "seq", m.Seq, "bytes", m.Bytes, "seconds", time.Since(began).Seconds())
	}
	return m, err
}

// List lists the checkpoints of this log, newest first.
func (c *Checkpointer) List(ctx context.Context) ([]Manifest, error) {
	all, err := OpenCheckpoints(ctx, c.opt.Conn, c.opt.Created, false)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return all.List(ctx)
}

// scheduleLook is how often it is looked whether a checkpoint is due.
const scheduleLook = 5 * time.Second

// Run makes checkpoints as they are due, until ctx ends.
func (c *Checkpointer) Run(ctx context.Context) error {
	s := c.opt.Schedule
	if s.Every == 0 && s.Events == 0 {
		return nil
	}
	pause := scheduleLook
	if s.Every > 0 {
		pause = min(pause, s.Every)
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		due, err := c.due(ctx)
		if err == nil && due {
			_, err = c.Save(ctx)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrRunning) {
			c.log.Warn("a checkpoint could not be made; trying again", "error", err)
		}
	}
}

func (c *Checkpointer) due(ctx context.Context) (bool, error) {
	if !c.opt.Due() {
		return false, nil
	}
	list, err := c.List(ctx)
	if err != nil {
		return false, fmt.Errorf("list checkpoints: %w", err)
	}
	var newest Manifest
	if len(list) > 0 {
		newest = list[0]
	}
	applied := c.opt.Store.Applied()
	s, behind := c.opt.Schedule, applied-min(newest.Seq, applied)
	return behind > 0 && (s.Events > 0 && behind >= s.Events || s.Every > 0 && time.Since(newest.Time) >= s.Every), nil
}

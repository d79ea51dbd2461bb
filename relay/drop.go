package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// dropper lets the read model forget edges that fences say are told: whole
// sequences below after.seq, or up to it where nothing of it is left. It never
// goes beyond the own cursor: edges yet to be folded are dropped after that.
type dropper struct {
	store Store
	log   *slog.Logger
	wake  chan struct{}

	mu   sync.Mutex
	upTo map[int]uint64 // told up to here, not dropped yet
	done map[int]uint64
}

// dropPause gathers fences: a drop is a write to the store.
const dropPause = 250 * time.Millisecond

func newDropper(store Store, log *slog.Logger) *dropper {
	return &dropper{store: store, log: log, wake: make(chan struct{}, 1), upTo: map[int]uint64{}, done: map[int]uint64{}}
}

// allow notes that edges of a partition are no longer needed.
func (d *dropper) allow(partition int, f Fence) {
	seq := f.After.Seq
	if !f.After.IsEnd() && seq > 0 {
		seq--
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq <= max(d.upTo[partition], d.done[partition]) {
		return
	}
	d.upTo[partition] = seq
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run drops until ctx ends.
func (d *dropper) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		}
		for left := true; left && ctx.Err() == nil; {
			sleep(ctx, dropPause)
			var err error
			if left, err = d.drop(); err != nil {
				return err
			}
		}
	}
}

// drop drops what it may now. left: the cursor stands before some of it.
func (d *dropper) drop() (left bool, err error) {
	cursor := d.store.Applied()
	now := map[int]uint64{}
	d.mu.Lock()
	for p, seq := range d.upTo {
		if seq > cursor {
			left = true
			seq = cursor
		} else {
			delete(d.upTo, p)
		}
		if seq > d.done[p] {
			now[p], d.done[p] = seq, seq
		}
	}
	d.mu.Unlock()
	if len(now) == 0 {
		return left, nil
	}
	if err := d.store.DropEdges(now); err != nil {
		return left, err
	}
	d.log.Debug("edges dropped", "partitions", len(now))
	return left, nil
}

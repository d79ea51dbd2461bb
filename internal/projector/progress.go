package projector

import (
	"context"
	"sync"
	"sync/atomic"
)

// progress is how far the fold has come, for those who wait for it.
type progress struct {
	applied atomic.Uint64
	guard   sync.Mutex
	changed chan struct{}
}

// Applied is the last sequence folded, as readers see it. A crash may take the store
// back to an earlier one, from where it folds again.
func (p *progress) Applied() uint64 { return p.applied.Load() }

// Changed returns a channel that is closed when Applied next rises. Take it
// before reading Applied.
func (p *progress) Changed() <-chan struct{} {
	p.guard.Lock()
	defer p.guard.Unlock()
	return p.changed
}

// Wait returns nil once Applied has reached seq, or ctx's error.
func (p *progress) Wait(ctx context.Context, seq uint64) error {
	for {
		changed := p.Changed()
		if p.Applied() >= seq {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reach raises Applied, and wakes whoever waits.
func (p *progress) reach(seq uint64) {
	p.guard.Lock()
	defer p.guard.Unlock()
	p.applied.Store(seq)
	close(p.changed)
	p.changed = make(chan struct{})
}

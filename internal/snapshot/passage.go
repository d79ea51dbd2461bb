package snapshot

import (
	"context"
	"fmt"
	"slices"
)

// CrowdedError means that too many wait for the past already.
type CrowdedError struct{ Waiting int }

// Error says how many.
func (e *CrowdedError) Error() string {
	return fmt.Sprintf("%d requests wait until the past is folded already; try again", e.Waiting)
}

// NoRoomError means that the disk has no room for a read model of the past.
type NoRoomError struct{}

// Error says what to do.
func (NoRoomError) Error() string {
	return "the disk has no room to fold the past: free some, or ask edict node state --at with --nats elsewhere"
}

// passage folds to a sequence for all who ask for it meanwhile.
type passage struct {
	cancel  context.CancelFunc
	waiters int
	done    chan struct{} // closed when err is there
	err     error
}

// board joins a passage that is on its way, or begins one, with h locked.
func (h *History) board(seq uint64) (*passage, error) {
	if h.waiting >= h.opt.Waiting {
		return nil, &CrowdedError{Waiting: h.waiting}
	}
	h.waiting++
	p := h.passages[seq]
	if p == nil {
		ctx, cancel := context.WithCancel(context.Background())
		p = &passage{cancel: cancel, done: make(chan struct{})}
		h.passages[seq] = p
		go h.pass(ctx, p, seq)
	}
	p.waiters++
	return p, nil
}

// await waits for a passage. The last one to give up ends it, and waits until it has.
func (h *History) await(ctx context.Context, p *passage) error {
	var err error
	select {
	case <-p.done:
		err = p.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	h.mu.Lock()
	h.waiting--
	p.waiters--
	last := p.waiters == 0
	if last {
		p.cancel()
		for seq, x := range h.passages { // nobody boards it any more
			if x == p {
				delete(h.passages, seq)
			}
		}
	}
	h.mu.Unlock()
	if last {
		<-p.done
	}
	return err
}

func (h *History) pass(ctx context.Context, p *passage, seq uint64) {
	m, err := h.make(ctx, seq)
	h.mu.Lock()
	var unused []*Moment
	switch wanted := h.passages[seq] == p; {
	case !wanted && err == nil:
		unused = append(unused, m)
	case err == nil:
		h.open = slices.Insert(h.open, 0, m)
		unused = h.let(func(place int, _ *Moment) bool { return place >= h.opt.Most })
	}
	if h.passages[seq] == p {
		delete(h.passages, seq)
	}
	h.mu.Unlock()
	h.discard(unused...)
	p.err = err
	close(p.done)
}

package snapshot

import (
	"context"
	"time"
)

// historyLook is how often it is looked what of the past is to be kept.
const historyLook = 2 * time.Second

// Run makes marks as the worker's own read model goes on, and lets go of read models that
// nobody asks any more, and of everything while the disk is almost full, until ctx ends.
func (h *History) Run(ctx context.Context) error {
	tick := time.NewTicker(historyLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			h.tend(time.Now())
		}
	}
}

// tend does what Run does, once.
func (h *History) tend(now time.Time) {
	h.mu.Lock()
	unused := h.let(func(_ int, m *Moment) bool { return m.users == 0 && now.Sub(m.used) >= h.opt.Idle })
	h.mu.Unlock()
	h.discard(unused...)
	if h.opt.Room != nil && !h.opt.Room() {
		h.clear(func(uint64) bool { return true })
		return
	}
	if begins := h.opt.Begins; begins != nil {
		first := begins()
		h.clear(func(seq uint64) bool { return seq < first })
	}
	live := h.opt.Live
	if live == nil {
		return
	}
	at := live.Applied()
	h.clear(func(seq uint64) bool { return seq > at }) // of a log that is gone, or made again soon
	if at >= h.marks.nearest(at)+h.opt.Every {
		h.mark(live)
	}
}

func (h *History) clear(gone func(seq uint64) bool) {
	if err := h.marks.clear(gone); err != nil {
		h.log.Warn("marks of the past were not removed", "error", err)
	}
}

// Close ends every fold, and closes what is open. Nobody may ask any more.
func (h *History) Close() {
	h.mu.Lock()
	unused := h.let(func(int, *Moment) bool { return true })
	h.mu.Unlock()
	h.discard(unused...)
}

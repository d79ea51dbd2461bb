package relay

import (
	"context"
	"slices"
	"sync"
)

// freshness holds what is live back from streams whose client may be further
// than the own fold. A row's id may be raised by an event that tells nobody. A
// worker that is ahead may have told a part of an answer in which the row stood
// above; the fold here has it below the client's id, and would never tell it. So
// a stream is answered at once, and is told what is live once the fold has
// reached the log's head as it was when the client came: at once where it had, and
// else by joining anew where it is.
type freshness struct {
	wake chan struct{} // has room for one: somebody asks

	mu     sync.Mutex
	asking []*stream

	known []arrivals // of the hub's goroutine: the fold is not there yet
}

// arrivals are streams, and the log's head after their clients came.
type arrivals struct {
	streams []*stream
	head    uint64
}

// ask has the log's head asked for a stream that has just joined.
func (f *freshness) ask(s *stream) {
	f.mu.Lock()
	f.asking = append(f.asking, s)
	f.mu.Unlock()
	f.signal()
}

func (f *freshness) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *freshness) take() []*stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	asking := f.asking
	f.asking = nil
	return asking
}

// askHeads asks the log's leader for the head, for all who came before, until
// ctx ends. While nobody answers, they are told nothing live: neither is there
// anything.
func (h *hub) askHeads(ctx context.Context) error {
	var waiting []*stream
	for ctx.Err() == nil {
		if len(waiting) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-h.fresh.wake:
			}
		}
		waiting = append(waiting, h.fresh.take()...)
		if len(waiting) == 0 {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, resumePatience)
		head, err := h.relay.opt.Head(asked)
		cancel()
		if err != nil {
			h.relay.opt.Log.Debug("the log's head is not known; asking again", "error", err)
			sleep(ctx, backoffMost/8)
			continue
		}
		told := arrivals{waiting, head}
		h.leave(func(p *post) { p.heads = append(p.heads, told) })
		waiting = nil
	}
	return nil
}

// release lets streams hear what is live, as far as the hub has come.
func (h *hub) release(came []arrivals) {
	known := append(h.fresh.known, came...)
	h.fresh.known = known[:0]
	for _, a := range known {
		a.streams = slices.DeleteFunc(a.streams, func(s *stream) bool { return h.released(s, a.head) })
		if len(a.streams) > 0 {
			h.fresh.known = append(h.fresh.known, a)
		}
	}
	clear(known[len(h.fresh.known):])
}

// released reports whether a stream need not be held any more: it left, or the
// hub has come to where the log's head was.
func (h *hub) released(s *stream, head uint64) bool {
	switch {
	case s.place < 0:
	case s.floor >= head: // it was there already when the stream joined
		for _, n := range s.live.take(nil, s.live.len()) {
			s.queue.put(n)
		}
		h.touch(s)
	case h.seq >= head:
		s.live.drop()
		h.sendAway(s)
	default:
		return false
	}
	s.held = false
	return true
}

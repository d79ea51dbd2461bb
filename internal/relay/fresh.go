package relay

import (
	"context"
	"slices"
	"sync"

	"github.com/edictdev/edict/internal/backoff"
)

// freshness holds back live messages from streams whose client may have seen more
// of the log than this worker's fold.
//
// An event can raise the id of a row without sending anything to anybody. So a
// worker that is ahead may have begun an answer in which a row comes late, with its
// higher id, and the connection was cut before that row. In the fold here the row
// still has its lower id, below the client's, and would not be sent at all.
//
// Therefore the past is sent at once, but live messages only after the fold has
// reached the head that the log had when the client came. If the fold had reached
// it already, the messages held back are sent; else the stream joins again.
type freshness struct {
	wake chan struct{} // of capacity 1: a stream is waiting for the head

	mu     sync.Mutex
	asking []*stream

	known []arrivals // those whose head the fold has not reached; used by the hub's goroutine only
}

// arrivals are streams, and a head of the log that was read after their clients came.
type arrivals struct {
	streams []*stream
	head    uint64
}

// ask has the log's head read for a stream that has just joined.
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

// askHeads asks the log's leader for the head, for all streams that joined before
// the question, until ctx ends. While the leader does not answer, these streams get
// nothing live; without a leader there is nothing new in the log either.
func (h *hub) askHeads(ctx context.Context) error {
	var waiting []*stream
	again := backoff.Steady(serverRetry)
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
		asked, cancel := context.WithTimeout(ctx, resumeTimeout)
		head, err := h.relay.opt.Head(asked)
		cancel()
		if err != nil {
			h.relay.opt.Log.Debug("the log's head is not known; asking again", "error", err)
			_ = again.Pause(ctx)
			waiting = slices.DeleteFunc(waiting, func(s *stream) bool { return s.over.Load() })
			continue
		}
		known := arrivals{waiting, head}
		h.leave(func(p *post) { p.heads = append(p.heads, known) })
		waiting = nil
	}
	return nil
}

// release lets those streams have live messages whose head the hub has reached.
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

// released reports whether a stream need not be held any more: it has left, or the
// hub has reached the head.
func (h *hub) released(s *stream, head uint64) bool {
	switch {
	case s.place < 0:
	case s.floor >= head: // the fold had reached it when the stream joined
		for _, n := range s.live.take(nil, s.live.len()) {
			s.queue.put(n)
		}
		h.flag(s)
	case h.seq >= head:
		s.live.drop()
		h.rejoin(s)
	default:
		return false
	}
	s.held = false
	return true
}

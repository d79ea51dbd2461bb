package relay

import (
	"sync"

	"github.com/edictdev/edict/policy"
)

// subscriber is one live stream of one node. The hub pushes, the stream's own
// goroutine drains; neither waits for the other. What waits is conflated to
// the newest message per policy, at the tail, so that sequences rise and
// memory is bounded by the node's policies.
type subscriber struct {
	node policy.NodeID
	wake chan struct{} // has room for one: something waits, or the end came

	mu      sync.Mutex
	floor   uint64         // nothing at or below it is wanted
	waiting []*news        // nil: superseded
	at      map[string]int // subject → index in waiting; made when something waits
	holes   int            // superseded entries of waiting
	ended   bool
}

func newSubscriber(node policy.NodeID) *subscriber {
	return &subscriber{node: node, wake: make(chan struct{}, 1)}
}

// push adds e, in place of what waits under the same subject.
func (s *subscriber) push(e *news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || e.Seq <= s.floor {
		return
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	if i, ok := s.at[e.Subject]; ok {
		s.waiting[i] = nil
		s.holes++
		if s.holes > len(s.waiting)/2 {
			s.compact()
		}
	}
	s.at[e.Subject] = len(s.waiting)
	s.waiting = append(s.waiting, e)
	s.signal()
}

// compact closes the holes.
func (s *subscriber) compact() {
	kept := s.waiting[:0]
	for _, e := range s.waiting {
		if e != nil {
			s.at[e.Subject] = len(kept)
			kept = append(kept, e)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting, s.holes = kept, 0
}

// drain takes everything that waits. ended: nothing will come any more.
func (s *subscriber) drain() (events []*news, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holes > 0 {
		s.compact()
	}
	events = s.waiting
	s.waiting, s.at = nil, nil
	return events, s.ended
}

// skipTo drops what waits at or below seq, and will come.
func (s *subscriber) skipTo(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, seq)
	for i := range s.waiting {
		if e := s.waiting[i]; e != nil && e.Seq <= s.floor {
			delete(s.at, e.Subject)
			s.waiting[i] = nil
			s.holes++
		}
	}
	if s.holes > 0 {
		s.compact()
	}
}

// end makes the stream end.
func (s *subscriber) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.signal()
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

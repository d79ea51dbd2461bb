package relay

import (
	"sync"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// subscriber is one live stream of one node. The hub pushes, the stream's own
// goroutine drains; neither waits for the other. What waits is conflated to
// the newest message per policy, at the tail, so that sequences rise and
// memory is bounded by the node's policies.
type subscriber struct {
	node policy.NodeID
	wake chan struct{} // has room for one: something waits, or the end came

	mu      sync.Mutex
	floor   uint64 // nothing at or below it is wanted
	waiting []streams.Message
	at      map[string]int // subject → index in waiting; made when something waits
	holes   int            // superseded entries of waiting, Seq 0
	ended   bool
}

func newSubscriber(node policy.NodeID) *subscriber {
	return &subscriber{node: node, wake: make(chan struct{}, 1)}
}

// resync is the message that makes the node pull; it has no subject.
func resync(seq uint64) streams.Message { return streams.Message{Seq: seq} }

func isResync(m streams.Message) bool { return m.Subject == "" }

// push adds m, in place of what waits under the same subject.
func (s *subscriber) push(m streams.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || m.Seq <= s.floor {
		return
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	if i, ok := s.at[m.Subject]; ok {
		s.waiting[i] = streams.Message{}
		s.holes++
		if s.holes > len(s.waiting)/2 {
			s.compact()
		}
	}
	s.at[m.Subject] = len(s.waiting)
	s.waiting = append(s.waiting, m)
	s.signal()
}

// compact closes the holes.
func (s *subscriber) compact() {
	kept := s.waiting[:0]
	for _, m := range s.waiting {
		if m.Seq > 0 {
			s.at[m.Subject] = len(kept)
			kept = append(kept, m)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting, s.holes = kept, 0
}

// drain takes everything that waits. ended: nothing will come any more.
func (s *subscriber) drain() (msgs []streams.Message, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holes > 0 {
		s.compact()
	}
	msgs = s.waiting
	s.waiting, s.at = nil, nil
	return msgs, s.ended
}

// skipTo drops what waits at or below seq, and will come.
func (s *subscriber) skipTo(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, seq)
	for i := range s.waiting {
		if m := s.waiting[i]; m.Seq > 0 && m.Seq <= s.floor {
			delete(s.at, m.Subject)
			s.waiting[i] = streams.Message{}
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

package node

import "slices"

// item is one message of the node's own subjects, as the stream numbered it.
type item struct {
	seq   uint64
	prev  uint64 // of the message before it on its subject, 0: none; live messages alone tell it
	name  string // the last part of its subject: a policy's id
	event Event
}

// mostWaiting bounds the live messages that wait for an answer.
const mostWaiting = 1024

// splice makes one rising sequence out of live messages, of which any may be
// missing, and of answers, each of which is complete up to a sequence and may
// be older than what was live. It does no I/O and knows no time.
//
// A live message is handed out at once while nothing hints at a hole: since the
// last cut an answer has covered the first live message, and each since has
// followed the one before it on its subject. What was lost without a hint comes
// with a later answer, below what was handed out: it is late.
type splice struct {
	confirmed uint64            // nothing up to here is missing
	told      uint64            // the highest sequence handed out
	above     map[string]uint64 // by name, the last sequence handed out above confirmed
	waiting   []item            // live since the cut, rising
	whole     bool              // live messages are handed out as they come
}

func newSplice(after uint64) *splice {
	return &splice{confirmed: after, told: after, above: map[string]uint64{}}
}

// cut says that live messages may have been lost.
func (s *splice) cut() {
	s.whole = false
	s.waiting = s.waiting[:0]
}

// live takes a message as it is published. out is what to hand out now; ask
// means that only an answer can tell what is missing.
func (s *splice) live(i item) (out []item, ask bool) {
	switch {
	case i.seq <= s.confirmed || i.seq <= s.above[i.name]:
		return nil, false // known
	case s.whole && i.seq > s.told && s.follows(i):
		s.hand(i)
		return []item{i}, false
	case s.whole:
		s.cut()
	}
	// What waits must have no hole but before its first.
	if n := len(s.waiting); n == mostWaiting || n > 0 && i.seq <= s.waiting[n-1].seq {
		s.waiting = s.waiting[:0]
	}
	s.waiting = append(s.waiting, i)
	return nil, true
}

// follows reports whether no message of i's subject is missing before it.
func (s *splice) follows(i item) bool {
	last := s.above[i.name]
	return i.prev == last || last == 0 && i.prev <= s.confirmed
}

func (s *splice) hand(i item) {
	s.told = i.seq
	s.above[i.name] = i.seq
}

// answer takes all that is retained above confirmed up to upTo, rising. out is
// what to hand out, in this order; late is set when something came that was
// never handed out and no longer can be in its place; ask, when live messages
// wait for an answer that reaches further.
func (s *splice) answer(msgs []item, upTo uint64) (out []item, late, ask bool) {
	for _, i := range msgs {
		switch {
		case i.seq <= s.confirmed || i.seq <= s.above[i.name]:
		case i.seq > s.told:
			s.hand(i)
			out = append(out, i)
		default:
			late = true
		}
	}
	s.reach(upTo)
	if s.whole || len(s.waiting) == 0 {
		return out, late, false
	}
	if s.waiting[0].seq > upTo {
		return out, late, true
	}
	waited := slices.Clone(s.waiting)
	s.waiting, s.whole = s.waiting[:0], true
	for _, i := range waited {
		more, hole := s.live(i)
		out, ask = append(out, more...), ask || hole
	}
	return out, late, ask
}

// reach says that nothing up to seq is missing any more.
func (s *splice) reach(seq uint64) {
	s.confirmed = max(s.confirmed, seq)
	s.told = max(s.told, s.confirmed)
	for name, at := range s.above {
		if at <= s.confirmed {
			delete(s.above, name)
		}
	}
}

// restart goes on after seq on another stream, or on one that lost its tail:
// what was known above it is of no use there.
func (s *splice) restart(seq uint64) {
	*s = *newSplice(seq)
}

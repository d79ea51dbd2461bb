package node

import (
	"slices"

	"github.com/edictdev/edict/policy"
)

// item is one message of the node's own subjects.
type item struct {
	id    policy.EventID
	prev  policy.EventID // the id before it for the node, 0: none; only live messages have it
	name  string         // the last part of its subject: a policy's id
	base  uint64         // that its id was counted from
	event Event
}

// maxWaiting bounds the live messages that wait for an answer.
const maxWaiting = 1024

// splice makes one rising sequence out of live messages and answers. Live messages may
// be missing, come twice, or come from two publishers; an answer is complete up to an
// id. splice does no I/O and has no clock.
//
// A live message is handed out at once if nothing is missing between it and the last
// one that was handed out. Else it waits for an answer, or for what is missing. A
// message that was lost without a sign comes with a later answer, below what was
// handed out by then: it is late.
type splice struct {
	confirmed policy.EventID            // nothing up to here is missing
	delivered policy.EventID            // the highest id handed out, or confirmed
	above     map[string]policy.EventID // by name, the last id handed out above confirmed
	waiting   []item                    // live, something is missing before each; rising
}

func newSplice(after policy.EventID) *splice {
	return &splice{confirmed: after, delivered: after, above: map[string]policy.EventID{}}
}

// live takes a live message. out is what to hand out now; ask means that something is
// missing, which only an answer can bring.
func (s *splice) live(i item) (out []item, ask bool) {
	if i.id <= s.delivered {
		return nil, false // known; or an answer brings it, if it matters
	}
	if s.next(i) {
		s.hand(i)
		return s.drain([]item{i}), false
	}
	at, known := slices.BinarySearchFunc(s.waiting, i, byID)
	if known {
		return nil, true
	}
	if len(s.waiting) == maxWaiting {
		s.waiting = s.waiting[:0] // an answer brings them
		at = 0
	}
	s.waiting = slices.Insert(s.waiting, at, i)
	return nil, true
}

// next reports whether a live message would be handed out now, as the next one.
func (s *splice) next(i item) bool { return i.id > s.delivered && i.prev <= s.delivered }

// knows reports whether i was handed out or noted, or an answer had everything up to it.
func (s *splice) knows(i item) bool { return i.id <= max(s.confirmed, s.above[i.name]) }

// note marks i as known, though it was not handed out in order.
func (s *splice) note(i item) { s.above[i.name] = max(s.above[i.name], i.id) }

func byID(a, b item) int {
	switch {
	case a.id < b.id:
		return -1
	case a.id > b.id:
		return 1
	}
	return 0
}

// drain hands out those waiting messages before which nothing is missing now.
func (s *splice) drain(out []item) []item {
	n := 0
	for ; n < len(s.waiting); n++ {
		i := s.waiting[n]
		if i.id <= s.delivered {
			continue
		}
		if i.prev > s.delivered {
			break
		}
		s.hand(i)
		out = append(out, i)
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
	return out
}

func (s *splice) hand(i item) {
	s.delivered = i.id
	s.above[i.name] = i.id
}

// answer takes the messages above confirmed, rising, up to upTo. out is what to hand
// out, in this order. late is what was never handed out and can no longer be, in order.
// ask means that live messages wait for an answer that reaches further.
func (s *splice) answer(items []item, upTo policy.EventID) (out, late []item, ask bool) {
	for _, i := range items {
		switch {
		case s.knows(i):
		case i.id > s.delivered:
			s.hand(i)
			out = append(out, i)
		default:
			late = append(late, i)
		}
	}
	s.reach(upTo)
	out = s.drain(out)
	return out, late, len(s.waiting) > 0
}

// reach notes that nothing up to id is missing any more.
func (s *splice) reach(id policy.EventID) {
	s.confirmed = max(s.confirmed, id)
	s.delivered = max(s.delivered, s.confirmed)
	for name, at := range s.above {
		if at <= s.confirmed {
			delete(s.above, name)
		}
	}
}

// mark is up to where a splice had handed out, before it was given more.
type mark struct{ confirmed, delivered policy.EventID }

func (s *splice) mark() mark { return mark{s.confirmed, s.delivered} }

// back takes back what was handed out above a mark and not handled: the next answer has it
// again, with what waited. It has the newest of each name, so nothing older of these is
// to be known.
func (s *splice) back(to mark, unhandled []item) {
	s.confirmed, s.delivered, s.waiting = to.confirmed, to.delivered, nil
	for _, i := range unhandled {
		delete(s.above, i.name)
	}
}

// restart begins again on another log.
func (s *splice) restart() { *s = *newSplice(0) }

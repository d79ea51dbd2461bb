package api

import (
	"slices"
	"sync"

	"github.com/edictdev/edict/policy"
)

// streamsEach is how many event streams of one node a principal holds on one
// worker. An agent needs one; one that comes back may have left some that are
// dead and not known to be.
const streamsEach = 8

// followedEach is how many streams of what operators follow a principal holds on one worker.
// With each event each of those of the log reads it.
const followedEach = 64

// held are the event streams of principals, oldest first. One too many ends the
// oldest: the newest is the one that somebody reads.
type held struct {
	mu sync.Mutex
	of map[holding][]*heldStream
}

type holding struct {
	who  policy.PrincipalID
	node policy.NodeID // empty: not of a node
}

type heldStream struct{ end func() }

// join notes a stream that end would end, and ends one if there are more than most.
func (h *held) join(by holding, most int, end func()) (leave func()) {
	s := &heldStream{end}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[holding][]*heldStream{}
	}
	all := append(h.of[by], s)
	if len(all) > most {
		all[0].end()
		all = slices.Delete(all, 0, 1)
	}
	h.of[by] = all
	return func() { h.leave(by, s) }
}

func (h *held) leave(by holding, s *heldStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.DeleteFunc(h.of[by], func(x *heldStream) bool { return x == s })
	if h.of[by] = all; len(all) == 0 {
		delete(h.of, by)
	}
}

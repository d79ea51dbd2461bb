package main

import "sort"

// id is what a frame carries, as a client sees it: a place, which is the log's
// base and the sequence of an event, and a number. A client compares ids and
// gives them back; it knows nothing of bases.
type id struct{ place, num int }

// Numbers above those of policies, as policy.EventID has them.
const (
	numWithdrawn = 1 << 18
	numArtifact  = 1 << 19
	numTable     = 1 << 20
)

func (a id) before(b id) bool { return a.place < b.place || a.place == b.place && a.num < b.num }

func highest(a, b id) id {
	if a.before(b) {
		return b
	}
	return a
}

// end stands above everything of a place.
func end(place int) id { return id{place, numTable} }

func sortFrames(f []frame) {
	sort.Slice(f, func(i, j int) bool { return f[i].id.before(f[j].id) })
}

// history is one log as it was once. A log that loses its tail and is accepted
// is another history with the same beginning: born is the log's creation, which
// stays, and base is raised.
type history struct {
	base, born int
	events     []event  // event i has sequence i+1
	states     []*state // after i events
}

func newHistory(base, born, nodes int) *history {
	s := &state{nodes: make([]nodeState, nodes)}
	for i := range s.nodes {
		s.nodes[i].labels = nobody
	}
	return &history{base: base, born: born, states: []*state{s}}
}

func (h *history) head() int { return len(h.events) }

func (h *history) now() *state { return h.states[len(h.states)-1] }

// latest is the tick of the last event.
func (h *history) latest() int {
	if h.head() == 0 {
		return 0
	}
	return h.events[h.head()-1].tick
}

func (h *history) add(e event) {
	h.events = append(h.events, e)
	h.states = append(h.states, h.now().fold(e))
}

// cut is the history without its tail, under another base.
func (h *history) cut(at, base int) *history {
	return &history{
		base: base, born: h.born,
		events: append([]event(nil), h.events[:at]...), states: append([]*state(nil), h.states[:at+1]...),
	}
}

package api

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// standEvery is how often each open stream is looked at again.
const standEvery = 3 * time.Second

// roundsGroups divides the streams, so that very many are not looked at in one
// go.
const roundsGroups = 12

// rounds looks at many streams, each every standEvery, by one timer: a timer of
// its own for each would wake the process hundreds of times a second to find
// that nothing has changed. Without streams there is no timer.
type rounds struct {
	mu      sync.Mutex
	groups  [roundsGroups]map[*look]struct{}
	next    int // group whose turn is next
	streams int // in all groups
	runs    bool
}

// look is one stream's; again says whether to look again.
type look struct{ again func() bool }

// join has again called every standEvery until it returns false or leave is
// called. A call that has begun by then goes on.
func (r *rounds) join(again func() bool) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &look{again}
	at := (r.next + roundsGroups - 1) % roundsGroups // was looked at last, so comes after a whole round
	if r.groups[at] == nil {
		r.groups[at] = map[*look]struct{}{}
	}
	r.groups[at][l] = struct{}{}
	r.streams++
	if !r.runs {
		r.runs = true
		time.AfterFunc(standEvery/roundsGroups, r.turn)
	}
	return func() { r.drop(at, l) }
}

func (r *rounds) drop(at int, l *look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, in := r.groups[at][l]; in {
		delete(r.groups[at], l)
		r.streams--
	}
}

// turn looks at one group and sees to the next one's turn.
func (r *rounds) turn() {
	r.mu.Lock()
	at := r.next
	r.next = (at + 1) % roundsGroups
	group := slices.Collect(maps.Keys(r.groups[at]))
	r.mu.Unlock()
	for _, l := range group {
		if !l.again() {
			r.drop(at, l)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs = r.streams > 0; r.runs {
		time.AfterFunc(standEvery/roundsGroups, r.turn)
	}
}

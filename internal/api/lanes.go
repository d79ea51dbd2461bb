package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// lanes keep the writes of one project from standing before another's: the log stores one
// after the other, so who has many under way would be all that the others wait for. A
// project that writes alone has as many under way as it likes. While another one writes, or
// did lately, it has a few, and its further ones wait for these.
type lanes struct {
	clock func() time.Time

	mu sync.Mutex
	of map[uuid.UUID]*lane
}

// lane is one project's.
type lane struct {
	under   int       // writes that are under way
	last    time.Time // when the last one began
	waiting []chan struct{}
}

const (
	// laneWidth is how many writes a project has under way beside others: one is stored while
	// the next is on its way.
	laneWidth = 2
	// lately is how long a project counts as one that writes.
	lately = time.Second
)

func newLanes(clock func() time.Time) *lanes {
	return &lanes{clock: clock, of: map[uuid.UUID]*lane{}}
}

// enter waits until a project may write. Leave the lane when the log has answered.
func (l *lanes) enter(ctx context.Context, project uuid.UUID) (leave func(), err error) {
	if l == nil || project == uuid.Nil {
		return func() {}, nil
	}
	l.mu.Lock()
	lane := l.lane(project)
	leave = sync.OnceFunc(func() { l.leave(project, lane) })
	if lane.under < laneWidth || len(lane.waiting) == 0 && !l.beside(project) {
		lane.begin(l.clock())
		l.mu.Unlock()
		return leave, nil
	}
	ready := make(chan struct{})
	lane.waiting = append(lane.waiting, ready)
	l.mu.Unlock()
	select {
	case <-ready:
		return leave, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(lane.waiting, ready)
	if i >= 0 {
		lane.waiting = slices.Delete(lane.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 {
		leave() // its turn had come
	}
	return nil, ctx.Err()
}

// lane is a project's. The caller holds l.mu, as for all below.
func (l *lanes) lane(project uuid.UUID) *lane {
	if l.of[project] == nil {
		l.of[project] = &lane{}
	}
	return l.of[project]
}

func (l *lane) begin(now time.Time) { l.under, l.last = l.under+1, now }

// beside reports whether another project writes, or did lately. Those that did not are
// forgotten on the way.
func (l *lanes) beside(project uuid.UUID) bool {
	now := l.clock()
	for other, lane := range l.of {
		switch {
		case other == project:
		case lane.under > 0 || now.Sub(lane.last) < lately:
			return true
		default:
			delete(l.of, other)
		}
	}
	return false
}

func (l *lanes) leave(project uuid.UUID, lane *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane.under--
	for len(lane.waiting) > 0 && (lane.under < laneWidth || !l.beside(project)) {
		lane.begin(l.clock())
		close(lane.waiting[0])
		lane.waiting = lane.waiting[1:]
	}
}

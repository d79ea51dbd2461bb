package api

import (
	"sync"

	"github.com/google/uuid"
)

// recentWrites remembers the last keyed writes by event id. It answers a retry
// whose traces are gone from the read model, such as a deletion's. Losing it
// costs such a retry its first answer, nothing else.
type recentWrites struct {
	mu     sync.Mutex
	writes map[uuid.UUID]recentWrite
	ring   []uuid.UUID
	next   int
}

type recentWrite struct {
	seq     uint64
	created bool // the answer was 201
}

func newRecentWrites(n int) *recentWrites {
	return &recentWrites{writes: map[uuid.UUID]recentWrite{}, ring: make([]uuid.UUID, n)}
}

func (r *recentWrites) put(event uuid.UUID, w recentWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.writes[event]; known {
		return
	}
	delete(r.writes, r.ring[r.next])
	r.ring[r.next] = event
	r.writes[event] = w
	r.next = (r.next + 1) % len(r.ring)
}

func (r *recentWrites) forget(event uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.writes, event)
}

func (r *recentWrites) get(event uuid.UUID) (w recentWrite, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok = r.writes[event]
	return w, ok
}

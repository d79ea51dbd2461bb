package snapshot

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// rooms bound how many requests wait for tables of a project. Who likes stays outside
// until there is room, first come first.
type rooms struct {
	most int

	mu      sync.Mutex
	inside  map[uuid.UUID]int
	outside map[uuid.UUID][]chan struct{}
}

func newRooms(most int) *rooms {
	return &rooms{most: most, inside: map[uuid.UUID]int{}, outside: map[uuid.UUID][]chan struct{}{}}
}

// enter counts a request that waits; the error is a *BusyError.
func (r *rooms) enter(project uuid.UUID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside[project] >= r.most {
		return &BusyError{Waiting: r.inside[project]}
	}
	r.inside[project]++
	return nil
}

// leave counts one less.
func (r *rooms) leave(project uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside[project]--; r.inside[project] == 0 {
		delete(r.inside, project)
	}
	r.admit(project)
}

// all is how many wait inside, of all projects.
func (r *rooms) all() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.inside {
		n += of
	}
	return n
}

// admit lets in who is next, if there is room, with r locked.
func (r *rooms) admit(project uuid.UUID) {
	queue := r.outside[project]
	if len(queue) == 0 || r.inside[project] >= r.most {
		return
	}
	close(queue[0])
	if r.outside[project] = queue[1:]; len(queue) == 1 {
		delete(r.outside, project)
	}
}

// wait stays outside until there is room; false: ctx ended before. Whoever was let in
// says came once he has asked.
func (r *rooms) wait(ctx context.Context, project uuid.UUID) bool {
	r.mu.Lock()
	ready := make(chan struct{})
	r.outside[project] = append(r.outside[project], ready)
	r.admit(project)
	r.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(r.outside[project], func(x chan struct{}) bool { return x == ready })
	if r.outside[project] = left; len(left) == 0 {
		delete(r.outside, project)
	}
	r.admit(project) // he may have been let in just now
	return false
}

// came lets in the next: he who was let in may have found his table made, and has
// entered nothing.
func (r *rooms) came(project uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admit(project)
}

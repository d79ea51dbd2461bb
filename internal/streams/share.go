package streams

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// groupAbove is how many writers may be on their way singly. What waits
	// beyond it goes as one atomic batch; smaller batches are slower than singles.
	groupAbove = 32
	// ofOneProject is how many of them may be of one project while others write, too.
	// The server syncs one after the other, so this is how many a write of somebody
	// else waits for: while one is synced the next is there.
	ofOneProject = 2
	// othersFor is how long a project counts as not the only one that writes.
	othersFor = time.Second
)

// writing knows whether more than one project writes.
type writing struct {
	mu     sync.Mutex
	latest uuid.UUID // project that wrote last
	any    bool      // one has
	others time.Time // when it was another than the one before; zero: never
}

// asks notes that a project writes.
func (w *writing) asks(project uuid.UUID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.any && w.latest != project {
		w.others = now
	}
	w.latest, w.any = project, true
}

// several reports whether more than one project writes, or did lately.
func (w *writing) several(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.others.IsZero() && now.Sub(w.others) < othersFor
}

// share counts the writers that are on their way singly, by project.
type share struct {
	singles int
	under   map[uuid.UUID]int
}

// has reports whether one more of a project may be on its way. Several projects
// write, or one.
func (s *share) has(project uuid.UUID, several bool) bool {
	return s.singles < groupAbove && (!several || s.under[project] < ofOneProject)
}

func (s *share) take(project uuid.UUID) {
	if s.under == nil {
		s.under = map[uuid.UUID]int{}
	}
	s.singles++
	s.under[project]++
}

func (s *share) give(project uuid.UUID) {
	s.singles--
	if s.under[project]--; s.under[project] == 0 {
		delete(s.under, project)
	}
}

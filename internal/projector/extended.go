package projector

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"
)

// maxExtensions bounds the revisions of which it is remembered whether they have
// anything of ordered policy.
const maxExtensions = 1 << 16

// extensions remembers of revisions whether they have anything of ordered policy. A
// revision never changes. It is safe for concurrent use.
type extensions struct {
	mu sync.Mutex
	of map[uuid.UUID]bool
}

func (x *extensions) get(revision uuid.UUID) (extended, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	extended, known = x.of[revision]
	return extended, known
}

func (x *extensions) put(revision uuid.UUID, extended bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil || len(x.of) >= maxExtensions {
		x.of = map[uuid.UUID]bool{}
	}
	x.of[revision] = extended
}

// read says it of a revision, from the store where it is not remembered.
func (x *extensions) read(store pebble.Reader, h HeadRef) (bool, error) {
	if extended, known := x.get(h.Revision); known {
		return extended, nil
	}
	yes, err := extended(store, h)
	if err == nil {
		x.put(h.Revision, yes)
	}
	return yes, err
}

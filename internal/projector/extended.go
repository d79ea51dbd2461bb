package projector

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"
)

// extension says whether a revision has anything of ordered policy.
type extension byte

const (
	unread extension = iota // the store knows
	extending
	notExtending
)

func extensionOf(extended bool) extension {
	if extended {
		return extending
	}
	return notExtending
}

// everExtended says whether any revision of a policy that nodes were given, as its head
// or in a rollout, had anything of ordered policy. The fold writes it, and a reader that found out from the
// store: so few policies have that readers of all others need not ask the store.
type everExtended struct{ is atomic.Uint32 }

// note notes a revision that the fold has met. The first of a policy decides for all
// that were before it.
func (x *everExtended) note(extended, first bool) {
	switch {
	case extended:
		x.is.Store(uint32(extending))
	case first:
		x.found(false)
	}
}

// found notes what the store says of the revisions up to a moment. It changes nothing
// that the fold has noted since.
func (x *everExtended) found(extended bool) {
	x.is.CompareAndSwap(uint32(unread), uint32(extensionOf(extended)))
}

func (x *everExtended) get() extension { return extension(x.is.Load()) }

// plain: no policy of some selectors ever had anything of ordered policy. A policy of
// which only the store knows is not plain.
func plain(of []*selector) bool {
	for _, s := range of {
		for _, p := range s.policies {
			if p.of != nil || p.ever.get() != notExtending {
				return false
			}
		}
	}
	return true
}

// headExtended reports whether the head of an arm has anything of ordered policy.
// The store is asked about a head that was loaded from it alone: one that the fold
// made need not be there yet.
func (f *fold) headExtended(p *policyState) (bool, error) {
	if p.extended == unread {
		yes, err := extended(f.store, HeadRef{Policy: p.id, Revision: p.head, seq: p.headSeq})
		if err != nil {
			return false, err
		}
		p.extended = extensionOf(yes)
	}
	return p.extended == extending, nil
}

// maxExtensions bounds the revisions of which it is remembered whether they have
// anything of ordered policy.
const maxExtensions = 1 << 16

// extensions remembers of revisions whether they have anything of ordered policy. It
// goes by where a revision is in the log: what was staged and aborted may come again
// under its id with other content. It is safe for concurrent use.
type extensions struct {
	mu sync.Mutex
	of map[placeOf]bool
}

// placeOf is where the log gave nodes a revision of a policy.
type placeOf struct {
	policy uuid.UUID
	seq    uint64
}

func (x *extensions) get(at placeOf) (extended, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	extended, known = x.of[at]
	return extended, known
}

func (x *extensions) put(at placeOf, extended bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil || len(x.of) >= maxExtensions {
		x.of = map[placeOf]bool{}
	}
	x.of[at] = extended
}

// read says it of a revision, from the store where it is not remembered.
func (x *extensions) read(store pebble.Reader, h HeadRef) (bool, error) {
	at := placeOf{h.Policy, h.seq}
	if extended, known := x.get(at); known {
		return extended, nil
	}
	yes, err := extended(store, h)
	if err == nil {
		x.put(at, yes)
	}
	return yes, err
}

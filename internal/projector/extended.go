package projector

import (
	"sync"

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

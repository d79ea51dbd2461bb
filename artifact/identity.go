package artifact

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"

	"github.com/edictdev/edict/internal/fault"
)

// Identity is what an envelope is about: versions are compared within one.
type Identity struct{ Node, Plane, Kind, Name string }

// Identity of the envelope.
func (e Envelope) Identity() Identity { return Identity{e.Node, e.Plane, e.Kind, e.Name} }

// ErrMisdirected: the envelope is genuine, but about something else.
var ErrMisdirected = errors.New("misdirected envelope")

// Expect checks that the envelope is about want.
func (e Envelope) Expect(want Identity) error {
	if got := e.Identity(); got != want {
		return fmt.Errorf("%w: it is for %v, want %v", ErrMisdirected, got, want)
	}
	return nil
}

// Reasons to refuse a genuine envelope.
var (
	// ErrRollback: a higher version was accepted before.
	ErrRollback = errors.New("rollback")
	// ErrForked: another envelope of the same version was accepted before.
	ErrForked = errors.New("forked version")
)

// Mark is the highest accepted version of an identity.
type Mark struct {
	Version uint64
	Digest  [sha256.Size]byte // of the envelope's SigningBytes
}

// HighWater is the rollback rule (docs/design.md#artifacts): per identity no version
// below the highest accepted, and at an equal version only equal bytes but for
// the signature. The zero value has accepted nothing. It is not safe for
// concurrent use.
type HighWater struct{ marks map[Identity]Mark }

// Accept applies the rule to a verified envelope and raises the mark. changed is
// false for the same envelope as the one accepted last. The error is ErrRollback or
// ErrForked; a refused envelope changes nothing.
func (h *HighWater) Accept(e Envelope) (changed bool, err error) {
	signed, err := e.SigningBytes()
	if err != nil {
		return false, err
	}
	next := Mark{e.Version, sha256.Sum256(signed)}
	have, ok := h.marks[e.Identity()]
	switch {
	case ok && next.Version < have.Version && !fault.Always(fault.Rollback):
		return false, fmt.Errorf("%w: %v has version %d, offered %d", ErrRollback, e.Identity(), have.Version, next.Version)
	case ok && next.Version == have.Version && next.Digest != have.Digest:
		return false, fmt.Errorf("%w: %v already has another version %d", ErrForked, e.Identity(), have.Version)
	case ok && next == have:
		return false, nil
	}
	h.Restore(e.Identity(), next)
	return true, nil
}

// Restore sets a mark that was kept elsewhere.
func (h *HighWater) Restore(id Identity, m Mark) {
	if h.marks == nil {
		h.marks = map[Identity]Mark{}
	}
	h.marks[id] = m
}

// All yields every mark, in no order.
func (h *HighWater) All() iter.Seq2[Identity, Mark] {
	return func(yield func(Identity, Mark) bool) {
		for id, m := range h.marks {
			if !yield(id, m) {
				return
			}
		}
	}
}

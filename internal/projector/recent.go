package projector

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/google/uuid"
)

// recentEvents is how many events of a node the fold knows again beside the newest.
// Each costs the node 8 bytes, in memory and in its record.
const recentEvents = 16

// recent are the last events that were applied to a node before the newest, by
// their marks, oldest first. What an event of a node costs does not depend on how
// many came before it, because no older one is known: see docs/decisions.md.
type recent []uint64

// markOf names an event in 8 bytes. It must stay what it is: it is stored.
func markOf(event uuid.UUID) uint64 {
	high, low := binary.BigEndian.Uint64(event[:8]), binary.BigEndian.Uint64(event[8:])
	return high*0x9e3779b97f4a7c15 + bits.RotateLeft64(low*0xc2b2ae3d27d4eb4f, 31)
}

func (r recent) has(event uuid.UUID) bool { return len(r) > 0 && slices.Contains(r, markOf(event)) }

// add adds the event that is the newest no more, and lets go of the oldest.
func (r *recent) add(event uuid.UUID) {
	if len(*r) == recentEvents {
		*r = slices.Delete(*r, 0, 1)
	}
	*r = append(*r, markOf(event))
}

// forget takes an event out that is to come again.
func (r *recent) forget(event uuid.UUID) {
	if i := slices.Index(*r, markOf(event)); i >= 0 {
		*r = slices.Delete(*r, i, i+1)
	}
}

// append appends the marks behind their number. The digest, which has none, hashes
// that zero.
func (r recent) append(b []byte) []byte {
	b = appendU64(b, uint64(len(r)))
	for _, m := range r {
		b = appendU64(b, m)
	}
	return b
}

func (r *reader) recent() (out recent) {
	n := r.u64()
	if n > recentEvents {
		r.err = errRecord
		return nil
	}
	for range n {
		out = append(out, r.u64())
	}
	return out
}

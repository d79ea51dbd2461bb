package projector

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// Edge is one entry of the outbox: in one partition, what the event at Seq
// changed for one policy. It keeps the memberships of that moment, so what is
// announced does not depend on when.
type StoredEdge struct {
	Seq         uint64
	Time        time.Time // log timestamp of Seq
	Policy      uuid.UUID
	Artifact    string    // <kind>.<name>, of an edge about an artifact; such a one has no policy and no revision
	Revision    uuid.UUID // the policy's head at that event; of a deleted policy, its last
	Fingerprint compiler.Fingerprint
	Have        []policy.NodeID // nodes that have the row now, ascending
	Lost        []policy.NodeID // nodes that lost it, ascending
	Trace       streams.Trace   // of the event; it says nothing about the change
}

// A set of places within a partition is stored in one of two forms, whichever
// is about the shorter: as runs, or as the words of its bit vector. It begins
// with a number: twice the number of runs, or twice the number of words plus 1.
//
// A run is the gap since the last one, times two; plus 1 if the run is longer
// than one place, and then the number of places that follow its first. Words
// begin with the number of empty ones left out before them.
const noPlaces = 0

// appendPlace writes a set of one.
func appendPlace(b []byte, place uint32) []byte {
	return binary.AppendUvarint(append(b, 1<<1), uint64(place)<<1)
}

// appendNodePlace writes the sets of an edge about one node: it has the row, or
// lost it.
func appendNodePlace(b []byte, place uint32, has bool) []byte {
	if has {
		return append(appendPlace(b, place), noPlaces)
	}
	return appendPlace(append(b, noPlaces), place)
}

// appendVector writes the set of a partition's bit vector.
func appendVector(b []byte, v []uint64) []byte {
	first := 0
	for first < len(v) && v[first] == 0 {
		first++
	}
	runs, carry := 0, uint64(0)
	for _, w := range v[first:] {
		runs += bits.OnesCount64(w &^ (w<<1 | carry)) // bits whose predecessor is not set
		carry = w >> 63
	}
	if words := v[first:]; runs > 4*len(words) { // a run takes two bytes or so
		b = binary.AppendUvarint(b, uint64(len(words))<<1|1)
		b = binary.AppendUvarint(b, uint64(first))
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	return appendRuns(binary.AppendUvarint(b, uint64(runs)<<1), v, first)
}

// appendRuns writes the runs of v, whose first set bit is in word i.
func appendRuns(b []byte, v []uint64, i int) []byte {
	end := 0 // of the run before
	for i < len(v) {
		w := v[i] &^ (1<<(max(end, i*64)-i*64) - 1) // what was not written yet
		if w == 0 {
			i++
			continue
		}
		start := i*64 + bits.TrailingZeros64(w)
		last := end
		end = runEnd(v, start)
		gap := uint64(start-last) << 1
		if end-start == 1 {
			b = binary.AppendUvarint(b, gap)
		} else {
			b = binary.AppendUvarint(binary.AppendUvarint(b, gap|1), uint64(end-start-1))
		}
		i = end / 64
	}
	return b
}

// runEnd is the first place at or after start that is not set.
func runEnd(v []uint64, start int) int {
	i := start / 64
	w := ^v[i] &^ (1<<(start%64) - 1)
	for w == 0 {
		if i++; i == len(v) {
			return i * 64
		}
		w = ^v[i]
	}
	return i*64 + bits.TrailingZeros64(w)
}

// places reads a set; none of it is at limit or above.
func (r *reader) places(limit int) []uint32 {
	n := r.uvarint()
	if n&1 == 1 {
		return r.vector(n>>1, uint64(limit))
	}
	var out []uint32
	end := uint64(0)
	for range n >> 1 {
		run := r.uvarint()
		start := end + run>>1
		end = start + 1
		if run&1 == 1 {
			end += r.uvarint()
		}
		if r.err != nil || start >= end || end > uint64(limit) {
			r.err = errRecord
			return nil
		}
		for x := start; x < end; x++ {
			out = append(out, uint32(x))
		}
	}
	return out
}

func (r *reader) vector(words, limit uint64) []uint32 {
	first := r.uvarint()
	if words > uint64(len(r.b))/8 || first > limit/64 {
		r.err = errRecord
		return nil
	}
	var out []uint32
	for i := range words {
		w := binary.LittleEndian.Uint64(r.take(8))
		for ; w != 0; w &= w - 1 {
			out = append(out, uint32((first+i)*64)+uint32(bits.TrailingZeros64(w)))
		}
	}
	if len(out) > 0 && uint64(out[len(out)-1]) >= limit {
		r.err = errRecord
		return nil
	}
	return out
}

// appendEdgeHead writes the start of an edge's value; have and lost follow, and
// then the event's trace, if there is one.
func appendEdgeHead(b []byte, time int64, revision uuid.UUID, fp compiler.Fingerprint) []byte {
	b = append(appendU64(b, uint64(time)), revision[:]...)
	return append(b, fp[:]...)
}

// pending is what is known in memory of one partition's edges: which sequences
// have how many, oldest first, and from where on they are complete.
type pending struct {
	marks []edgeMark
	count int
	last  uint64 // no edge is above it
	from  uint64 // highest sequence dropped
}

type edgeMark struct {
	seq   uint64
	count int
}

func (p *pending) add(seq uint64) {
	p.count++
	p.last = seq
	if n := len(p.marks); n > 0 && p.marks[n-1].seq == seq {
		p.marks[n-1].count++
		return
	}
	p.marks = append(p.marks, edgeMark{seq, 1})
}

// drop forgets the sequences up to seq, and says how many edges they had.
func (p *pending) drop(seq uint64) (dropped int) {
	n := 0
	for ; n < len(p.marks) && p.marks[n].seq <= seq; n++ {
		dropped += p.marks[n].count
	}
	p.count -= dropped
	p.marks = p.marks[n:]
	p.from = max(p.from, seq)
	p.last = max(p.last, seq) // as a reload would have it
	return dropped
}

// oldest is the first sequence with an edge, or limit when there is none.
func oldest(ps []pending, limit uint64) uint64 {
	for i := range ps {
		if len(ps[i].marks) > 0 {
			limit = min(limit, ps[i].marks[0].seq)
		}
	}
	return limit
}

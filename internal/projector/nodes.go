package projector

import (
	"math/bits"

	"github.com/edictdev/edict/policy"
)

// Nodes are some nodes as they were at one event. The zero value has none.
type Nodes struct {
	one  *node // a set of one
	part int32 // of one
	many *nodeBits
}

// nodeBits is a set of many nodes. Nobody writes to it.
type nodeBits struct {
	local   uint       // bits of an ordinal that say the place in a partition
	vectors [][]uint64 // by partition and place
	all     [][]*node  // append only: what a set sees of it never changes
	n       int
}

// Len is how many there are.
func (s Nodes) Len() int {
	switch {
	case s.one != nil:
		return 1
	case s.many != nil:
		return s.many.n
	}
	return 0
}

// Has reports whether a node is one of them.
func (s Nodes) Has(ref NodeRef) bool {
	if s.many == nil {
		return s.one != nil && s.one.ordinal == uint32(ref)
	}
	part, place := int(ref>>s.many.local), uint32(ref)&(1<<s.many.local-1)
	if part >= len(s.many.vectors) {
		return false
	}
	v := s.many.vectors[part]
	return int(place/64) < len(v) && v[place/64]>>(place%64)&1 == 1
}

// Each calls f with each node of a partition, in no particular order, until f
// returns false; partition -1 is all of them.
func (s Nodes) Each(partition int, f func(NodeRef, policy.NodeID) bool) {
	switch {
	case s.many == nil && s.one != nil && (partition < 0 || partition == int(s.part)):
		f(NodeRef(s.one.ordinal), s.one.id)
	case s.many == nil:
	case partition >= 0:
		s.many.each(partition, f)
	default:
		for part := range s.many.vectors {
			if !s.many.each(part, f) {
				return
			}
		}
	}
}

func (b *nodeBits) each(part int, f func(NodeRef, policy.NodeID) bool) bool {
	if part >= len(b.vectors) {
		return true
	}
	for i, w := range b.vectors[part] {
		for ; w != 0; w &= w - 1 {
			n := b.all[part][i*64+bits.TrailingZeros64(w)]
			if !f(NodeRef(n.ordinal), n.id) {
				return false
			}
		}
	}
	return true
}

// size is about how many bytes the set holds for itself.
func (s Nodes) size() (n int) {
	if s.many == nil {
		return 0
	}
	for _, v := range s.many.vectors {
		n += 8*len(v) + 24
	}
	return n
}

// setOf makes a set of what a union has gathered. The set shares nothing with it.
func (l *layout) setOf(u union) Nodes {
	n, words, last := 0, 0, uint32(0)
	for part, v := range u {
		end := used(v)
		if end == 0 {
			continue
		}
		words += end
		last = l.ordinal(part, uint32(end*64-1-bits.LeadingZeros64(v[end-1])))
		for _, w := range v[:end] {
			n += bits.OnesCount64(w)
		}
	}
	switch n {
	case 0:
		return Nodes{}
	case 1:
		return l.oneOf(l.nodeAt(last))
	}
	b := &nodeBits{local: l.localBits, n: n, vectors: make([][]uint64, len(u))}
	all := make([]uint64, 0, words)
	for part, v := range u {
		from := len(all)
		all = append(all, v[:used(v)]...)
		b.vectors[part] = all[from:len(all):len(all)]
	}
	return Nodes{many: b}
}

// used is the length of a vector without the empty words at its end.
func used(v []uint64) int {
	n := len(v)
	for n > 0 && v[n-1] == 0 {
		n--
	}
	return n
}

// oneOf is a set of one.
func (l *layout) oneOf(n *node) Nodes { return Nodes{one: n, part: int32(l.partition(n.ordinal))} }

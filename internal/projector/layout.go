package projector

import (
	"math/bits"

	"github.com/edictdev/edict/policy"
)

// layout says where nodes stand: an ordinal is a partition in the high bits and
// a place within it in the low ones, so that what belongs to a partition lies
// together. Ordinals rise within a partition and are never reused.
type layout struct {
	parts     int
	localBits uint
	byOrdinal [][]*node // partition, then place; append only
	// facts are the log sequences of the events that gave nodes their present facts, by
	// partition and place: beside the nodes, as whoever looks at each node of a fleet
	// then reads memory in its order.
	facts [][]uint64
	words int // 64-bit words of one bit vector a partition, all nodes in
}

func newLayout(parts int) layout {
	return layout{parts: parts, localBits: 32 - uint(bits.Len(uint(parts-1))), byOrdinal: make([][]*node, parts), facts: make([][]uint64, parts)}
}

func (l *layout) partition(ordinal uint32) int { return int(ordinal >> l.localBits) }
func (l *layout) place(ordinal uint32) uint32  { return ordinal & (1<<l.localBits - 1) }

func (l *layout) ordinal(part int, place uint32) uint32 {
	return uint32(part)<<l.localBits | place
}

// next is the ordinal for a new node.
func (l *layout) next(id policy.NodeID) uint32 {
	part := id.Partition(l.parts)
	return l.ordinal(part, uint32(len(l.byOrdinal[part])))
}

// nodeAt finds a node by ordinal. Ordinals are never reused, so it is there.
func (l *layout) nodeAt(ordinal uint32) *node {
	return l.byOrdinal[l.partition(ordinal)][l.place(ordinal)]
}

// factsOf is the place of the sequence of a node's facts.
func (l *layout) factsOf(n *node) *uint64 {
	return &l.facts[l.partition(n.ordinal)][l.place(n.ordinal)]
}

// enter files a node under its ordinal, which is the next one of its partition
// but while a store is loaded.
func (l *layout) enter(n *node) {
	part, place := l.partition(n.ordinal), int(l.place(n.ordinal))
	for len(l.byOrdinal[part]) <= place {
		if len(l.byOrdinal[part])%64 == 0 {
			l.words++
		}
		l.byOrdinal[part], l.facts[part] = append(l.byOrdinal[part], nil), append(l.facts[part], 0)
	}
	l.byOrdinal[part][place] = n
}

package projector

import "github.com/edictdev/edict/policy"

// Nodes are some nodes as they were at one event. The zero value has none.
type Nodes struct {
	one  *node      // a set of one
	many [][]uint64 // or a bit vector a partition; nobody writes to it
	all  [][]*node  // by partition and place: append only, what a set sees of it never changes
	n    int
}

// Len is how many there are.
func (s Nodes) Len() int { return s.n }

// Has reports whether a node is one of them.
func (s Nodes) Has(NodeRef) bool { panic("not yet") }

// Each calls f with each node of a partition, in no particular order, until f
// returns false; partition -1 is all of them.
func (s Nodes) Each(_ int, _ func(NodeRef, policy.NodeID) bool) { panic("not yet") }

package projector

import (
	"cmp"
	"slices"
	"strings"
)

// A node may be in several retes. Events about its first one need not say which;
// of each further one they do, and so do messages to the node.

// sets are the node's sets of artifacts, the first one first, the others by rete.
func (n *node) sets() []*artifactSet {
	if n.artifacts == nil {
		return nil
	}
	return append([]*artifactSet{n.artifacts}, n.artifacts.others...)
}

// newSet adds a set without artifacts, the first one before any beside it.
func (n *node) newSet(beside string) *artifactSet {
	s := &artifactSet{beside: beside}
	if beside == "" {
		n.artifacts = s
		return s
	}
	at, _ := n.besideOf(beside)
	n.artifacts.others = slices.Insert(n.artifacts.others, at, s)
	return s
}

// besideOf finds the set of a rete beside the first, or its place.
func (n *node) besideOf(rete string) (at int, ok bool) {
	if n.artifacts == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(n.artifacts.others, rete, func(s *artifactSet, rete string) int { return cmp.Compare(s.beside, rete) })
}

// said is how messages to the node call an artifact of the set: those of a set beside
// the first have the rete behind their name, which has no dot.
func (s *artifactSet) said(name string) string {
	if s.beside == "" {
		return name
	}
	return name + "." + s.beside
}

// CutRete divides the name of an Item of an artifact into its name and the rete that
// it is of; empty: the node's first.
func CutRete(name string) (part, rete string) {
	part, rete, _ = strings.Cut(name, ".")
	return part, rete
}

// reteName is the rete of the set; empty: it holds nothing, and never said.
func (s *artifactSet) reteName() string {
	if s.rete != nil {
		return s.rete.name
	}
	return s.beside
}

// besideHeld is where an event about artifacts of a rete belongs.
type besideHeld struct {
	node   *node        // nil: nobody named it yet
	set    *artifactSet // nil: there is none yet
	beside string       // the rete of a set beside the first; empty: it is the first
}

// place finds the set of a rete. An event that names its rete makes a set beside one
// of another rete; one that does not is about the first, unless the node holds that
// rete beside it or did: a version that it had is not newer for ever.
func (n *node) place(rete string, named bool) besideHeld {
	switch {
	case n == nil || n.artifacts == nil:
		return besideHeld{node: n}
	case n.artifacts.rete != nil && n.artifacts.rete.name == rete:
		return besideHeld{n, n.artifacts, ""}
	}
	if at, ok := n.besideOf(rete); ok {
		return besideHeld{n, n.artifacts.others[at], rete}
	}
	if named && n.artifacts.rete != nil {
		return besideHeld{n, nil, rete}
	}
	return besideHeld{n, n.artifacts, ""}
}

// setOf is the set of a rete that the node has or had; nil: there is none, or its
// first lost all artifacts and does not say any more of which rete it was.
func (n *node) setOf(rete string) *artifactSet {
	if n.artifacts != nil && n.artifacts.rete != nil && n.artifacts.rete.name == rete {
		return n.artifacts
	}
	if at, ok := n.besideOf(rete); ok {
		return n.artifacts.others[at]
	}
	return nil
}

// partsBeside is how many artifacts the node holds beside those of a set.
func (n *node) partsBeside(set *artifactSet) (count int) {
	for _, s := range n.sets() {
		if s != set {
			count += len(s.parts)
		}
	}
	return count
}

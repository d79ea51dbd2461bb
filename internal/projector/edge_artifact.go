package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// recordDifference records, part by part, what a node has now and had not, and releases the
// documents that it had. A newer set has another version in each document.
func (f artifactFold) recordDifference(n *node, s *artifactSet, old []heldPart) {
	now := s.parts
	for i, j := 0, 0; i < len(old) || j < len(now); {
		c := -1
		switch {
		case i == len(old):
			c = 1
		case j < len(now):
			c = old[i].compare(now[j].artifactPart)
		}
		if c < 0 {
			f.recordOne(n, s, old[i].artifactPart, i, false)
		} else {
			f.recordOne(n, s, now[j].artifactPart, j, true)
			j++
		}
		if c <= 0 {
			f.release(old[i].fingerprint)
			i++
		}
	}
}

// recordAll records that a node which was registered has its artifacts now, or
// that one which was removed lost them.
func (f artifactFold) recordAll(n *node, has bool) {
	place := 0
	for _, s := range n.sets() {
		for _, p := range s.parts {
			f.recordOne(n, s, p.artifactPart, place, has)
			place++
		}
	}
}

// recordOne records that a registered node has or lost one of its artifacts, at a
// place among what the event left, or among what it found.
func (f artifactFold) recordOne(n *node, s *artifactSet, p artifactPart, place int, has bool) {
	if n.identity == nil {
		return // a node is sent its artifacts once it is registered
	}
	p.name = s.said(p.name)
	if !has {
		f.keepWithdrawn(n, p, place)
	}
	if f.edges == nil {
		return
	}
	e := Edge{Item: f.item(numberOf(place, has)), Trace: f.trace}
	e.Kind, e.Name, e.Policy = p.kind, p.name, uuid.Nil
	if has {
		e.Have = f.oneOf(n)
	} else {
		e.Lost = f.oneOf(n)
	}
	f.addEdge(e, p.fingerprint)
}

// numberOf is the number of an artifact's event id.
func numberOf(place int, has bool) uint32 {
	if has {
		return policy.NumberArtifact + uint32(place)
	}
	return policy.NumberWithdrawn + uint32(place)
}

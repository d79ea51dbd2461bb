package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// recordDifference records, part by part, what a node has now and had not, and releases the
// documents that it had. A newer set has another version in each document.
func (f artifactFold) recordDifference(n *node, old []heldPart) {
	now := n.artifacts.parts
	for i, j := 0, 0; i < len(old) || j < len(now); {
		c := -1
		switch {
		case i == len(old):
			c = 1
		case j < len(now):
			c = old[i].compare(now[j].artifactPart)
		}
		if c < 0 {
			f.recordOne(n, old[i].artifactPart, i, false)
		} else {
			f.recordOne(n, now[j].artifactPart, j, true)
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
	if n.artifacts == nil {
		return
	}
	for i, p := range n.artifacts.parts {
		f.recordOne(n, p.artifactPart, i, has)
	}
}

// recordOne records that a registered node has or lost one of its artifacts, at a
// place in the set that the event left, or in the one that it found.
func (f artifactFold) recordOne(n *node, p artifactPart, place int, has bool) {
	if n.identity == nil {
		return // a node is sent its artifacts once it is registered
	}
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

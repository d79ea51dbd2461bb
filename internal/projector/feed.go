package projector

import (
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Feed takes what the fold changes, in log order, in memory (docs/design.md#delivery).
// Its methods are called under the fold's lock: they return at once.
type Feed interface {
	// Wanted reports whether anybody wants edges now. While nobody does, none are
	// made.
	Wanted() bool
	// Take is handed every batch that was folded, whether or not it has edges. It
	// keeps the batch or drops it; nothing in it changes.
	Take(Batch)
}

// Batch is what one batch of the fold changed.
type Batch struct {
	Seq   uint64    // the fold stands here
	Time  time.Time // log timestamp of Seq
	Whole bool      // false: nobody wanted edges, or they could not be made; whoever needs them reads the past
	Edges []Edge    // ascending by ID
	Size  int       // bytes that the edges hold, roughly
}

// Edge is what one event changed for one policy, or for one artifact of one
// node: who has it as it is now, and who lost it. It holds the nodes of that
// moment, so what is sent does not depend on when it is sent.
type Edge struct {
	Item
	Have, Lost Nodes
	// Head is the policy's, which is sent to those who lost a row. Those who have one
	// may have the revision of a rollout.
	Head  uuid.UUID
	Trace streams.Trace // of the event; it says nothing about the change
}

// Gone is the item for those who lost it.
func (e *Edge) Gone() Item {
	i := e.Item
	i.Revision = e.Head
	return i
}

// Item is one thing as it is sent to a node: a row, an artifact, or that the node
// no longer has it. Two workers, live or on resume, make equal items of one ID.
type Item struct {
	ID   policy.EventID
	Seq  uint64    // of the event that the id names
	Time time.Time // log timestamp of Seq

	// Of a row: the policy and the revision that the node has of it since Seq, or, of
	// one that it lost, the head that the policy had then.
	Policy   uuid.UUID
	Revision uuid.UUID
	// Extended: that revision has anything of ordered policy, so the row does not say
	// by itself what a node enforces.
	Extended bool
	// Of an artifact, which has no policy: kind and name; else both are empty.
	Kind, Name string
	// Of what a node has: the fingerprint and bytes of the rule payload, or of the
	// document. Of an edge that nobody has anything of, and of what is gone, zero.
	Fingerprint compiler.Fingerprint
	Payload     []byte
}

// NodeRef is a private handle of a node in this store, never reused.
type NodeRef uint32

package projector

import (
	"errors"

	"github.com/edictdev/edict/policy"
)

// ErrUnknownNode: there is no such node now.
var ErrUnknownNode = errors.New("unknown node")

// ErrBehind: the fold has not come as far as the id that is resumed from.
var ErrBehind = errors.New("the fold is behind the event id")

// Past is what a node that has heard everything up to an id has missed, as the
// read model tells it at one moment.
type Past struct {
	Node NodeRef
	Seq  uint64 // the moment
	// Items ascend by ID, all above the id. One that is gone has Gone set.
	Items []PastItem
	// Whole: the kept past reaches back to the id. If not, the items are what the
	// node has now; what it lost is not known.
	Whole bool
	// Changed is the sequence of the last event that changed a node or a policy of
	// the node's project.
	Changed uint64
}

// PastItem is an Item, or that the node has it no more.
type PastItem struct {
	Item
	Gone bool
}

// Past reads what a node missed above an id. join, if not nil, is called at the
// moment that is read, under the fold's lock: every Batch with a Seq above it is
// yet to come. An id of an earlier log counts as 0, which nothing stands below.
// The error is ErrUnknownNode, ErrBehind or a *CorruptError; join is not called
// then.
func (p *Projector) Past(id policy.NodeID, after policy.EventID, join func(seq uint64, node NodeRef)) (Past, error) {
	panic("not yet")
}

// Base is what the log's sequences are counted from in event ids.
func (p *Projector) Base() uint64 { panic("not yet") }

// Feed has f handed every batch from now on; nil: nobody. It returns the
// sequence that the fold stands at.
func (p *Projector) Feed(f Feed) (seq uint64) { panic("not yet") }

// PastStatus says how far back the kept past reaches.
type PastStatus struct {
	From    uint64 // resumes from this sequence or below it are before the window; 0: all of the log is in it
	Records int
	Bytes   int
	Dropped uint64 // records dropped for want of room since the start; those that grew old are not counted
}

// PastStatus is how the kept past stands now.
func (p *Projector) PastStatus() PastStatus { panic("not yet") }

package relay

import (
	"context"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Store is the read model, as the relay needs it; *projector.Projector is one.
type Store interface {
	// Applied is the cursor: the last log sequence that was folded.
	Applied() uint64
	// Changed is closed at the next advance of the cursor.
	Changed() <-chan struct{}
	// Wait returns when Applied() >= seq or ctx ends.
	Wait(ctx context.Context, seq uint64) error
	// Base is what the log's sequences are counted from in event ids.
	Base() uint64
	// Feed has every batch from now on passed to f. It returns the sequence that the fold
	// stands at, and the log timestamp of that event.
	Feed(f projector.Feed) (seq uint64, at time.Time)
	// Past is what a node missed above an id. It is read at one moment, at which join
	// is called.
	Past(id policy.NodeID, after policy.EventID, join func(seq uint64, node projector.NodeRef)) (projector.Past, error)
	// Latest is the highest id, at or below upTo, of what a node has or lost; 0: none.
	Latest(id policy.NodeID, upTo policy.EventID) policy.EventID
	// NodesIn are the nodes of a partition.
	NodesIn(partition int) []policy.NodeID
	// Roster is a number that changes whenever NodesIn does.
	Roster() uint64
}

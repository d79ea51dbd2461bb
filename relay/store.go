package relay

import (
	"context"
	"iter"
	"time"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/projector"
)

// Store is what the relay asks of the read model.
type Store interface {
	// Applied is the own cursor: the last log sequence folded.
	Applied() uint64
	// Changed is closed at the next advance of the cursor.
	Changed() <-chan struct{}
	// Wait returns when Applied() >= seq or ctx ends.
	Wait(ctx context.Context, seq uint64) error
	// Outbox is the outbox of announcements at one moment.
	Outbox() Outbox
	// SyncRows are the rows of every node of some partitions at one moment,
	// and the outbox of the same moment, for payloads.
	SyncRows(partitions []int) (projector.SyncRows, Outbox)
	// DropEdges drops whole sequences up to and including upTo[p].
	DropEdges(upTo map[int]uint64) error
	// EdgesAbove counts, for partition after partition, the edges of sequences
	// above seqs[partition].
	EdgesAbove(seqs []uint64) []int
}

// Outbox is a consistent look at the edges and payloads of a Store. It must be
// closed.
type Outbox interface {
	Close() error
	Seq() uint64
	Time() time.Time
	// EdgesFrom is the sequence above which a partition's edges are complete.
	EdgesFrom(partition int) uint64
	// LastEdge is the highest sequence with an edge since the store was
	// opened, 0 when there is none.
	LastEdge(partition int) uint64
	// Edges yields a partition's edges from a sequence on, by sequence, then
	// policy.
	Edges(partition int, from uint64) iter.Seq2[projector.StoredEdge, error]
	Payload(fp compiler.Fingerprint) ([]byte, error)
}

// FromProjector makes a projector the relay's Store.
func FromProjector(p *projector.Projector) Store { return projected{p} }

type projected struct{ *projector.Projector }

func (p projected) Outbox() Outbox { return p.Snapshot() }

func (p projected) SyncRows(partitions []int) (projector.SyncRows, Outbox) {
	rows, snapshot := p.Projector.SyncRows(partitions)
	return rows, snapshot
}

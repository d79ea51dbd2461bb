package relay

import (
	"sync"
	"time"
)

// board is what this process has seen of every partition's fence, by whoever
// wrote it: the hub writes it as fences pass, announcer and status read it.
type board struct {
	mu        sync.Mutex
	fences    []placed
	contested []time.Time   // when this process last lost the partition to another; zero: never, or it has it back
	asked     chan struct{} // closed when a fence of nobody's passes
}

func newBoard(partitions int) *board {
	return &board{fences: make([]placed, partitions), contested: make([]time.Time, partitions), asked: make(chan struct{})}
}

func (b *board) see(partition int, f placed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if partition < len(b.fences) && f.Seq > b.fences[partition].Seq {
		b.fences[partition] = f
		if f.Owner == nobody {
			close(b.asked)
			b.asked = make(chan struct{})
		}
	}
}

// syncAsked returns a channel that is closed when a sync is next asked of
// whoever announces a partition. Take it before looking at the fences.
func (b *board) syncAsked() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

func (b *board) fence(partition int) placed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fences[partition]
}

func (b *board) lost(partition int, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contested[partition] = at
}

// PartitionStatus is one partition as this process knows it.
type PartitionStatus struct {
	ID    int    `json:"id"`
	Owner string `json:"owner"` // empty: no fence seen yet
	Epoch uint64 `json:"epoch"`
	Mode  Mode   `json:"mode"`
	After Key    `json:"after"`
	Edges int    `json:"edges"` // edges of this process's outbox that are not told yet
	// Contested: this process announced the partition and lost it to another.
	Contested bool `json:"contested,omitempty"`
}

func (b *board) status() []PartitionStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]PartitionStatus, len(b.fences))
	for i, f := range b.fences {
		out[i] = PartitionStatus{
			ID: i, Owner: f.Owner, Epoch: f.Epoch, Mode: f.Mode, After: f.After,
			Contested: !b.contested[i].IsZero(),
		}
	}
	return out
}

// reset forgets the fences of a stream that is gone.
func (b *board) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.fences)
	clear(b.contested)
}

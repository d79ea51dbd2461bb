package relay

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/internal/projector"
)

// inbox holds the fold's batches until its one reader takes them. The fold never
// waits for the reader: when the inbox is full it drops everything that it holds, and
// the reader goes on from the read model.
type inbox struct {
	maxBytes int // bytes of edges
	wanted   func() bool
	dropped  func(batches int) // is called under the lock
	wake     chan struct{}     // of capacity 1: something waits

	mu   sync.Mutex
	held []projector.Batch
	size int
	gap  uint64        // sequence of the last batch that was not kept; 0: all were
	seq  atomic.Uint64 // of the last batch handed over
	time time.Time     // log timestamp of seq
}

// parcel is what an inbox held at one moment, oldest first.
type parcel struct {
	batches []projector.Batch
	seq     uint64    // everything up to here is in batches, or in the gap before them
	gap     bool      // batches before these were dropped: what they held is only in the read model
	gapTo   uint64    // the sequence of the last of them
	time    time.Time // log timestamp of seq
}

func newInbox(most int, wanted func() bool, dropped func(batches int)) *inbox {
	return &inbox{maxBytes: most, wanted: wanted, dropped: dropped, wake: make(chan struct{}, 1)}
}

// Wanted reports whether the reader has anybody to send to.
func (b *inbox) Wanted() bool { return b.wanted() }

// Take keeps a batch. A batch without edges only moves the sequence.
func (b *inbox) Take(batch projector.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq.Store(batch.Seq)
	b.time = batch.Time
	switch {
	case !batch.Whole:
		b.drop()
		b.gap = batch.Seq
	case b.size+batch.Size > b.maxBytes:
		b.dropped(len(b.held) + 1)
		b.drop()
		b.gap = batch.Seq
	case len(batch.Edges) > 0:
		b.held = append(b.held, batch)
		b.size += batch.Size
	}
	b.signal()
}

// signal wakes the reader.
func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) drop() {
	b.held, b.size = nil, 0
}

// take is everything that waits.
func (b *inbox) take() parcel {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := parcel{b.held, b.seq.Load(), b.gap > 0, b.gap, b.time}
	b.drop()
	b.gap = 0
	return p
}

// feeds hands the fold's batches to several.
type feeds []projector.Feed

// Wanted reports whether any of them wants edges.
func (f feeds) Wanted() bool {
	for _, x := range f {
		if x.Wanted() {
			return true
		}
	}
	return false
}

// Take hands a batch to all of them.
func (f feeds) Take(b projector.Batch) {
	for _, x := range f {
		x.Take(b)
	}
}

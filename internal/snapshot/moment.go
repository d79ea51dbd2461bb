package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Events are the log, an event at a time.
type Events interface {
	State(ctx context.Context) (streams.State, error)
	Get(ctx context.Context, seq uint64) (streams.Message, error)
}

// SeqAt is the last sequence whose log timestamp is not after at. The log's
// timestamps never fall, so it asks for few events, however many there are.
// A log that begins after at gives the sequence before its first.
func SeqAt(ctx context.Context, log Events, at time.Time) (uint64, error) {
	state, err := log.State(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the log's head: %w", err)
	}
	low, high := state.First, state.Last+1 // of the first event after at
	for low < high {
		mid := low + (high-low)/2
		m, err := log.Get(ctx, mid)
		if err != nil {
			return 0, fmt.Errorf("read the time of event %d: %w", mid, err)
		}
		if m.Time.After(at) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1, nil
}

// MomentOf is SeqAt of a log that may have been compacted: *streams.CompactedError where
// the moment lies before its origin.
func MomentOf(ctx context.Context, log interface {
	Events
	Begins() uint64
	First() uint64
	Removed(ctx context.Context, seq uint64) error
}, at time.Time,
) (uint64, error) {
	seq, err := SeqAt(ctx, log, at)
	if err == nil && seq < log.Begins() && log.Begins() > log.First() {
		err = log.Removed(ctx, seq)
	}
	return seq, err
}

// StateOf is a node's state as the read model folded so far has it; ok is
// false when no such node was registered then.
func (r *Replayed) StateOf(ctx context.Context, id policy.NodeID) (s State, ok bool, err error) {
	r.store.Read(func(v *projector.View) { s, ok, err = NewComposer(Options{}).State(v, id) })
	if err != nil || !ok {
		return s, ok, err
	}
	block, resolved, err := NewBlocks(NewTables(r.store, TableOptions{})).Of(ctx, id)
	if resolved {
		s = block
	}
	return s, true, err
}

package tour

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/streams"
)

// tap listens to the node stream itself, where every node's messages pass.
type tap struct {
	nodes *streams.Nodes

	mu      sync.Mutex
	changed chan struct{}
	rows    map[pair]bool        // what the last message of each (node, policy) says: rules or none
	told    map[uint64]*tally    // by version: the log sequence of the cause
	seen    int                  // messages
	version map[uuid.UUID]uint64 // newest version of each policy
}

// tally counts what one event made the plane say.
type tally struct {
	rows map[pair]bool
	last time.Time // when the last of them passed
}

func newTap(nodes *streams.Nodes) *tap {
	return &tap{nodes: nodes, changed: make(chan struct{}), rows: map[pair]bool{}, told: map[uint64]*tally{}, version: map[uuid.UUID]uint64{}}
}

// run listens until ctx ends.
func (t *tap) run(ctx context.Context) error {
	for msgs, err := range t.nodes.Follow(ctx, t.nodes.First()) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listen to the node stream: %w", err)
		}
		t.take(msgs)
	}
	return nil
}

func (t *tap) take(msgs []streams.Message) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range msgs {
		parts := strings.Split(m.Subject, ".")
		if len(parts) != 4 || parts[1] != "node" {
			continue // a fence or a mark
		}
		id, err := uuid.Parse(parts[3])
		version, err2 := strconv.ParseUint(m.Get(streams.HeaderEdictLogSeq), 10, 64)
		if err != nil || err2 != nil {
			continue
		}
		row := pair{parts[2], id}
		t.seen++
		if bytes.Contains(m.Body, []byte(`"rules":[]`)) {
			delete(t.rows, row)
		} else {
			t.rows[row] = true
		}
		if t.told[version] == nil {
			t.told[version] = &tally{rows: map[pair]bool{}}
		}
		t.told[version].rows[row] = true
		t.told[version].last = now
		t.version[id] = max(t.version[id], version)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits until cond, which is called under the lock, holds.
func (t *tap) await(ctx context.Context, what string, cond func() bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		t.mu.Lock()
		ok, changed := cond(), t.changed
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return fmt.Errorf("%w: after %s, the node stream: %s", errDiffers, patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tally is what the event at a log sequence made the plane say so far.
func (t *tap) tally(seq uint64) (rows map[pair]bool, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows = map[pair]bool{}
	if c := t.told[seq]; c != nil {
		for r := range c.rows {
			rows[r] = true
		}
		last = c.last
	}
	return rows, last
}

func (t *tap) messages() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// differences counts rows that the last messages have and want has not, and
// the reverse.
func (t *tap) differences(want map[pair]bool) (extra, missing int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.rows {
		if !want[r] {
			extra++
		}
	}
	for r := range want {
		if !t.rows[r] {
			missing++
		}
	}
	return extra, missing
}

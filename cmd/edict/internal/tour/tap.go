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

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
)

// tap listens to the subjects of nodes on NATS, where every node's messages pass.
type tap struct {
	mu      sync.Mutex
	changed chan struct{}
	rows    map[pair]bool     // what the last message of each (node, policy) says: rules or none
	tallies map[uint64]*tally // by log sequence of the cause
	seen    int               // rows sent; what NATS carries twice counts once
}

// tally counts what one event made the plane say.
type tally struct {
	rows map[pair]bool
	last time.Time // when the last of them passed
}

func newTap() *tap {
	return &tap{changed: make(chan struct{}), rows: map[pair]bool{}, tallies: map[uint64]*tally{}}
}

// take notes a message. One that is not about a policy is none of the tour's.
func (t *tap) take(m streams.Message) {
	parts := strings.Split(m.Subject, ".")
	if len(parts) != 4 {
		return
	}
	id, err := uuid.Parse(parts[3])
	cause, err2 := strconv.ParseUint(m.Get(wire.HeaderLogSeq), 10, 64)
	if err != nil || err2 != nil {
		return
	}
	t.note(pair{parts[2], id}, cause, bytes.Contains(m.Body, []byte(`"rules":[]`)))
}

func (t *tap) note(row pair, cause uint64, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gone {
		delete(t.rows, row)
	} else {
		t.rows[row] = true
	}
	if t.tallies[cause] == nil {
		t.tallies[cause] = &tally{rows: map[pair]bool{}}
	}
	if !t.tallies[cause].rows[row] {
		t.tallies[cause].rows[row] = true
		t.seen++
	}
	t.tallies[cause].last = time.Now()
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
			return fmt.Errorf("%w: after %s, heard on NATS: %s", errDiffers, patience, what)
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
	if c := t.tallies[seq]; c != nil {
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

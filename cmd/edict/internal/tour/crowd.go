package tour

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// crowd are nodes whose agents are played: each follows its own event stream
// over HTTP and verifies every signature.
type crowd struct {
	server string
	base   uint64 // of the log, in event ids

	mu      sync.Mutex
	changed chan struct{}
	members map[string]*member
}

// member is one node being followed.
type member struct {
	follower  *node.Follower
	connected int
	events    []received
	held      map[uuid.UUID][sha256.Size]byte // the content of each row
}

type received struct {
	event node.Event
	at    time.Time
	again bool // the node had that row with that content already
}

// take notes an event. After a stream was cut a node may get rows once more that did not
// change with its labels: the plane does not know how much of an event it had.
func (m *member) take(e node.Event) {
	r := received{event: e, at: time.Now()}
	if p := e.Policy; p != nil {
		had, has := m.held[p.PolicyID]
		r.again = has && had == p.Fingerprint
		m.held[p.PolicyID] = p.Fingerprint
	}
	m.events = append(m.events, r)
}

// holds notes the rows that a pull gave.
func (m *member) holds(rows []node.Row) {
	m.held = make(map[uuid.UUID][sha256.Size]byte, len(rows))
	for _, r := range rows {
		m.held[r.Policy] = r.Fingerprint
	}
}

func newCrowd(server string, base uint64) *crowd {
	return &crowd{server: server, base: base, changed: make(chan struct{}), members: map[string]*member{}}
}

// follow has g follow a node until ctx ends. from nil: pull first.
func (c *crowd) follow(ctx context.Context, g *errgroup.Group, id string, from *policy.EventID) *member {
	const soon = 20 * time.Millisecond // the plane is killed for a moment only
	m := new(member)
	m.follower = node.NewFollower(c.server, policy.NodeID(id), node.Options{
		From: from, MinWait: soon, MaxWait: 10 * soon,
		Connected: func() {
			rows := m.follower.Rows()
			c.note(func() { m.connected++; m.holds(rows) })
		},
	})
	c.note(func() { c.members[id] = m })
	g.Go(func() error {
		err := m.follower.Run(ctx, func(e node.Event) error {
			c.note(func() { m.take(e) })
			return nil
		})
		if err != nil {
			return fmt.Errorf("node %s: %w", id, err)
		}
		return nil
	})
	return m
}

// note changes something and wakes who waits.
func (c *crowd) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until cond, which is called under the lock, holds.
func (c *crowd) await(ctx context.Context, what string, cond func() bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return fmt.Errorf("%w: after %s, the nodes that are followed: %s", errDiffers, patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// connected waits until every member has had so many connections.
func (c *crowd) connected(ctx context.Context, times int) error {
	return c.await(ctx, "their streams are not open", func() bool {
		for _, m := range c.members {
			if m.connected < times {
				return false
			}
		}
		return true
	})
}

// heard waits until those of the nodes that are followed got as many messages
// about the event at a log sequence as concern them, and says how many nodes
// they are and when the last message came.
func (c *crowd) heard(ctx context.Context, seq uint64, nodes map[string]int) (followed int, last time.Time, err error) {
	err = c.await(ctx, fmt.Sprintf("event %d has not reached all", seq), func() bool {
		followed, last = 0, time.Time{}
		for id, messages := range nodes {
			m := c.members[id]
			if m == nil {
				continue
			}
			heard, at := m.heard(c.base, seq)
			if heard < messages {
				return false
			}
			followed++
			if at.After(last) {
				last = at
			}
		}
		return true
	})
	return followed, last, err
}

// heard counts the messages about an event of the log with that base that say something
// new, and tells when the last came.
func (m *member) heard(base, seq uint64) (n int, last time.Time) {
	for _, r := range m.events {
		if about, ok := r.event.ID.Seq(base); ok && about == seq && !r.again {
			n, last = n+1, r.at
		}
	}
	return n, last
}

// rising checks promise 2: the event ids of every member rise, none twice.
func (c *crowd) rising() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		var before policy.EventID
		for _, r := range m.events {
			if r.event.ID <= before {
				return fmt.Errorf("node %s got event %d after %d", id, r.event.ID, before)
			}
			before = r.event.ID
		}
	}
	return nil
}

package tour

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// machine is a node of the waves: its agent follows its event stream, and reports
// what it applied, or that it refused it.
type machine struct {
	id       policy.NodeID
	follower *node.Follower
	reporter *node.Reporter
	follows  bool
	refuses  atomic.Bool // what it was sent last
	sent     []uuid.UUID // revisions, in the order in which they came
	at       []time.Time
}

// unable is why the agents of this story refuse a rule that opens all ports.
const unable = "rule 1 opens ports up to 65535, which this machine does not allow"

// run follows and reports until ctx ends. note is called with every change.
func (m *machine) run(ctx context.Context, g *errgroup.Group, server string, note func(func())) {
	m.reporter = node.NewReporter(server, m.id, node.ReporterOptions{Wait: time.Millisecond})
	m.follower = node.NewFollower(server, m.id, node.Options{Connected: func() {
		note(func() { m.follows = true })
		m.report()
	}})
	g.Go(func() error { return m.reporter.Run(ctx) })
	g.Go(func() error {
		return m.follower.Run(ctx, func(e node.Event) error {
			if e.Policy != nil {
				note(func() { m.sent, m.at = append(m.sent, e.Policy.RevisionID), append(m.at, time.Now()) })
				m.refuses.Store(bytes.Contains(e.Policy.Rules, []byte("65535")))
			}
			m.report()
			return nil
		})
	})
}

// report says that what was sent is applied, or why not.
func (m *machine) report() {
	said, ok := m.follower.Report()
	if !ok {
		return
	}
	if m.refuses.Load() {
		said.Outcome, said.Reason = policy.OutcomeRefused, unable
	}
	m.reporter.Send(said)
}

// first is when the machine was sent a revision; zero: it was not.
func (m *machine) first(revision uuid.UUID) time.Time {
	for i, id := range m.sent {
		if id == revision {
			return m.at[i]
		}
	}
	return time.Time{}
}

// has is the revision that the machine was sent last.
func (m *machine) has() uuid.UUID {
	if len(m.sent) == 0 {
		return uuid.Nil
	}
	return m.sent[len(m.sent)-1]
}

package projector

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// born is when every log of these tests was created.
var born = time.Unix(1_700_000_000, 0).UTC()

const testPartitions = 4

// id makes a readable uuid: a kind and a number.
func id(kind byte, n int) uuid.UUID {
	u := uuid.UUID{0: kind, 6: 0x70, 8: 0x80}
	u[12], u[13], u[14], u[15] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return u
}

func tenant(n int) uuid.UUID { return id('P', n) }
func pol(n int) uuid.UUID    { return id('p', n) }
func rev(n int) uuid.UUID    { return id('r', n) }
func evt(n int) uuid.UUID    { return id('e', n) }

// journal builds a log by hand: each event gets the next sequence.
type journal struct {
	msgs []streams.Message
}

func (j *journal) add(e policy.Event) streams.Message {
	return j.raw(wire.Subject(e), policy.Append(nil, e))
}

func (j *journal) raw(subject string, body []byte) streams.Message {
	seq := uint64(len(j.msgs) + 1)
	m := streams.Message{Seq: seq, Subject: subject, Body: body, Time: born.Add(time.Duration(seq) * time.Second)}
	j.msgs = append(j.msgs, m)
	return m
}

func expr(t require.TestingT, s string) policy.Expr {
	e, faults := policy.ParseExpr(s)
	require.Empty(t, faults, s)
	return e
}

func labels(t require.TestingT, kv ...string) policy.Labels {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	l, err := policy.NewLabels(m, "")
	require.NoError(t, err)
	return l
}

// rule is told apart by its port.
func rule(port int) policy.Rule {
	return policy.Rule{
		Action: policy.Allow, Protocol: policy.TCP,
		Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.1.0.0/16"),
		Ports: policy.Ports{From: uint16(port), To: uint16(port)},
	}
}

// revise is the event that publishes revision r of policy p, after parent (0: the first).
func revise(t require.TestingT, event, proj, p, r, parent int, slug, selector string, ports ...int) policy.RevisionCreated {
	e := policy.RevisionCreated{
		ID: evt(event), Project: tenant(proj), Policy: pol(p), Slug: slug,
		Revision: policy.Revision{
			ID: rev(r), Selector: policy.Selector{Source: expr(t, selector), Destination: expr(t, "role=nobody")},
			CreatedAt: born, CreatedBy: "author",
		},
	}
	if parent != 0 {
		e.Revision.Parent = rev(parent)
	}
	for _, port := range ports {
		e.Revision.Rules = append(e.Revision.Rules, rule(port))
	}
	return e
}

func remove(event, proj, p int) policy.PolicyDeleted {
	return policy.PolicyDeleted{ID: evt(event), Project: tenant(proj), Policy: pol(p)}
}

func update(t require.TestingT, event, proj int, node string, kv ...string) policy.NodeUpdated {
	return policy.NodeUpdated{ID: evt(event), Project: tenant(proj), Node: policy.NodeID(node), Labels: labels(t, kv...)}
}

func leave(event, proj int, node string) policy.NodeRemoved {
	return policy.NodeRemoved{ID: evt(event), Project: tenant(proj), Node: policy.NodeID(node)}
}

// disk is a file system in memory that outlives the projectors opened on it.
type disk struct{ fs vfs.FS }

func newDisk() disk { return disk{vfs.NewMem()} }

func (d disk) open(t require.TestingT) *Projector {
	p, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: d.fs})
	require.NoError(t, err)
	return p
}

func openFresh(t testing.TB) *Projector {
	p := newDisk().open(t)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// verdict applies one message and says what became of it, as a word, which a view
// must have said before.
func verdict(t *testing.T, p *Projector, m streams.Message) string {
	expected := foretold(p, m)
	require.NoError(t, p.Apply([]streams.Message{m}))
	v, err := p.Verdict(context.Background(), m.Seq)
	require.NoError(t, err)
	if expected != nil {
		requireSameVerdict(t, *expected, v)
	}
	return word(v)
}

func word(v Verdict) string {
	switch {
	case v.Rejection != nil:
		return v.Rejection.Code
	case v.Duplicate:
		return "duplicate"
	}
	return "applied"
}

// held is what a node holds by policy: the fingerprint of its row.
type held map[policy.NodeID]map[uuid.UUID]compiler.Fingerprint

func (h held) set(n policy.NodeID, p uuid.UUID, fp compiler.Fingerprint) {
	if h[n] == nil {
		h[n] = map[uuid.UUID]compiler.Fingerprint{}
	}
	h[n][p] = fp
}

func (h held) drop(n policy.NodeID, p uuid.UUID) {
	delete(h[n], p)
	if len(h[n]) == 0 {
		delete(h, n)
	}
}

// ear is a Feed that keeps what it is handed.
type ear struct {
	deaf    bool
	batches []Batch
}

func (e *ear) Wanted() bool { return !e.deaf }
func (e *ear) Take(b Batch) { e.batches = append(e.batches, b) }

// take returns what was handed over since the last call, whole.
func (e *ear) take(t require.TestingT) (edges []Edge) {
	for _, b := range e.batches {
		require.True(t, b.Whole)
		edges = append(edges, b.Edges...)
	}
	e.batches = nil
	return edges
}

// listen has the fold tell from now on.
func listen(p *Projector) *ear {
	e := &ear{}
	p.Feed(e)
	return e
}

// nodeIDs are the ids of a set, ascending.
func nodeIDs(s Nodes) (out []policy.NodeID) {
	s.Each(-1, func(_ NodeRef, id policy.NodeID) bool { out = append(out, id); return true })
	slices.Sort(out)
	return out
}

// heard folds edges into what the nodes hold after them, checking that they
// come in order and tell no node what it knows already.
func heard(t require.TestingT, edges []Edge, h held) {
	last := policy.EventID(0)
	for _, e := range edges {
		require.Greater(t, e.ID, last, "edges out of order")
		last = e.ID
		for _, n := range nodeIDs(e.Have) {
			was, had := h[n][e.Policy]
			require.False(t, had && was == e.Fingerprint, "node %s is told at %d what it holds", n, e.Seq)
			h.set(n, e.Policy, e.Fingerprint)
			require.Equal(t, e.Fingerprint, compiler.FingerprintOf(e.Payload), "payload of an edge")
		}
		for _, n := range nodeIDs(e.Lost) {
			_, had := h[n][e.Policy]
			require.True(t, had, "node %s is told at %d to drop what it does not hold", n, e.Seq)
			h.drop(n, e.Policy)
		}
		require.Equal(t, e.Have.Len() > 0, e.Payload != nil)
	}
}

// rowsOf is what the view says every one of the nodes holds.
func rowsOf(p *Projector, nodes []policy.NodeID) held {
	h := held{}
	p.Read(func(v *View) {
		for _, n := range nodes {
			rows, _ := v.Rows(n)
			for _, r := range rows.Rows {
				h.set(n, r.Policy, r.Fingerprint)
			}
		}
	})
	return h
}

func nodeNames(n int) []policy.NodeID {
	out := make([]policy.NodeID, n)
	for i := range out {
		out[i] = policy.NodeID(fmt.Sprintf("n%d", i))
	}
	return out
}

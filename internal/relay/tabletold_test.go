package relay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

// applied waits until a worker has folded everything up to seq, and says when that was added
// to the log.
func (w *worker) applied(p *plane, seq uint64) string {
	w.t.Helper()
	require.NoError(w.t, w.store.Wait(p.within(), seq))
	require.Equal(w.t, seq, w.store.Applied(), "the test adds nothing after it")
	past, err := w.store.Past("n1", p.end(seq), nil)
	require.NoError(w.t, err)
	return past.Time.UTC().Format(time.RFC3339Nano)
}

// TestAMessageAboutATableHasTheTimeOfTheEventThatChangedIt: also where that event changed no
// row, so that there was nothing to publish.
func TestAMessageAboutATableHasTheTimeOfTheEventThatChangedIt(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	tables := newWatch()
	w := p.start(t.TempDir(), relay.Options{Tables: tables, Publish: relay.PublishOptions{Share: all()}})
	p.node("n1", "role=web")
	e := p.listen("edict.node.n1.>")
	p.revise(p.policyID(1), "role=web", 80)
	e.next()
	seq := p.node("n2", "role=db") // a peer, say
	at := w.applied(p, seq)
	tables.changed(seq, nil, "n1")
	word := e.next()
	require.Equal(t, p.end(seq), word.id)
	require.Equal(t, []string{at}, word.header["ce-time"])
}

// TestAWorkerThatStartsKnowsWhenItsLastEventWas: a table may be found changed before anything
// is folded.
func TestAWorkerThatStartsKnowsWhenItsLastEventWas(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	dir := t.TempDir()
	first := p.node("n1", "role=web")
	w := p.start(dir, relay.Options{Publish: relay.PublishOptions{Share: all()}})
	at := w.applied(p, first)
	w.stop()

	e := p.listen("edict.node.n1.>")
	tables := newWatch()
	w = p.start(dir, relay.Options{Tables: tables, Publish: relay.PublishOptions{Share: all()}})
	tables.changed(first, nil, "n1")
	word := e.next()
	require.Equal(t, p.end(first), word.id)
	require.Equal(t, []string{at}, word.header["ce-time"])
	seq := p.revise(p.policyID(1), "role=web", 80)
	row := e.next()
	require.Equal(t, "n1 policy_updated [80]", row.String())
	require.Equal(t, word.id, row.prev)
	for part, told := range w.Published() {
		require.Equal(t, first, told, "partition %d: whoever looks at tables has come no further", part)
	}
	tables.changed(seq, nil)
	w.at(seq)
}

// TestAMarkDoesNotPassATableThatIsNotTold: who takes the partition over at the mark watches
// only what changes after it.
func TestAMarkDoesNotPassATableThatIsNotTold(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := newFlaky(p.connect(streams.ConnectOptions{Server: p.server}))
	tables := newWatch()
	w := p.start(t.TempDir(), relay.Options{Tables: tables, Publish: relay.PublishOptions{
		Wire: wire, Listeners: streams.NewListeners(wire.Wire.(*streams.Conn)), Share: all(),
	}})
	e := p.listen("edict.node.n1.>")
	first := p.node("n1", "role=web")
	tables.changed(first, nil)
	w.at(first)
	seq := p.revise(p.policyID(1), "role=web", 80)
	require.Equal(t, "n1 policy_updated [80]", e.next().String())
	p.revise(p.policyID(1), "role=web", 81)
	require.Equal(t, "n1 policy_updated [81]", e.next().String(), "the round before has ended")
	wire.fail("edict.node.n1.state")
	tables.changed(seq, nil, "n1")
	<-wire.failed
	for part, told := range w.Published() {
		require.Less(t, told, seq, "partition %d", part)
	}
	wire.fail("")
	for e.next().kind != "node_state_updated" { // rows are told again
	}
	w.at(seq)
}

// TestATableIsToldThoughItsNodeHasHeardOfALaterEvent: what is read from the read model may be
// ahead of the round.
func TestATableIsToldThoughItsNodeHasHeardOfALaterEvent(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := p.connect(streams.ConnectOptions{Server: p.server})
	l, tables := newEars(wire, "n1"), newWatch()
	w := p.start(t.TempDir(), relay.Options{Tables: tables, Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: all()}})
	e := p.listen("edict.node.n1.>")
	seq := p.node("n1", "role=web")
	tables.changed(seq, nil)
	w.at(seq)
	later := make(chan uint64, 1)
	l.inRound(func() { // the round has taken what it is to publish
		l.come("n1")
		s := p.revise(p.policyID(1), "role=web", 80)
		require.NoError(t, w.store.Wait(p.within(), s))
		later <- s
	})
	tables.changed(seq, nil, "n1")
	row, word := e.next(), e.next()
	require.Equal(t, "n1 policy_updated [80]", row.String())
	require.Equal(t, "n1 node_state_updated datapath", word.String())
	require.Equal(t, row.id, word.prev)
	tables.changed(<-later, nil)
	w.at(tables.Seq())
}

package relay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/relay"
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
	tables.changed(seq, nil)
	w.at(seq)
}

package projector

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
)

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	other  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// traced gives a message the header that a producer may set.
func traced(m streams.Message, header string) streams.Message {
	m.Header = map[string][]string{wire.HeaderTraceparent: {header}}
	return m
}

func traceOf(t *testing.T, header string) streams.Trace {
	tr, ok := streams.ParseTrace(header)
	require.True(t, ok)
	return tr
}

func TestAnEdgeHasItsEventsTrace(t *testing.T) {
	p, j := openFresh(t), &journal{}
	ear := listen(p)
	var seen []Traced
	p.opt.Metrics.Traced = func(x Traced) { seen = append(seen, x) }
	msgs := []streams.Message{
		j.add(update(t, 1, 1, "a", "role", "web")),
		traced(j.add(update(t, 2, 1, "b", "role", "web")), parent),
		traced(j.add(revise(t, 3, 1, 1, 1, 0, "web", "role=web", 80)), parent),
		traced(j.add(revise(t, 4, 1, 1, 1, 0, "web", "role=web", 80)), other), // the same again
		traced(j.add(revise(t, 5, 1, 1, 3, 2, "web", "role=web", 81)), other), // of a parent nobody knows
		traced(j.add(update(t, 6, 1, "b", "role", "db")), "nonsense"),
		traced(j.add(remove(7, 1, 1)), parent),
	}
	require.NoError(t, p.Apply(msgs))
	got := map[uint64]string{}
	for _, e := range ear.take(t) {
		got[e.Seq] = e.Trace.String()
	}
	require.Equal(t, map[uint64]string{3: parent, 6: "", 7: parent}, got)
	require.Len(t, seen, 3)
	require.Equal(t, Traced{
		Trace: traceOf(t, parent), First: 2, Last: 3, Type: "node_updated", Logged: msgs[1].Time, Began: seen[0].Began,
	}, seen[0])
	require.Equal(t, []uint64{4, 5, 1}, []uint64{seen[1].First, seen[1].Last, uint64(seen[1].Rejected)})
	require.Equal(t, uint64(7), seen[2].First)
}

// TestATraceChangesNothingElse folds one log with and without traces.
func TestATraceChangesNothingElse(t *testing.T) {
	plain, marked, j := openFresh(t), openFresh(t), &journal{}
	j.add(update(t, 1, 1, "a", "role", "web"))
	j.add(revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80))
	j.add(update(t, 3, 1, "a", "role", "db"))
	a, b := listen(plain), listen(marked)
	for _, m := range j.msgs {
		require.NoError(t, plain.Apply([]streams.Message{m}))
		require.NoError(t, marked.Apply([]streams.Message{traced(m, parent)}))
		was, is := a.take(t), b.take(t)
		require.Len(t, is, len(was))
		for i := range is {
			require.Equal(t, parent, is[i].Trace.String())
			is[i].Trace = streams.Trace{}
			require.Equal(t, fmt.Sprint(was[i].Item, nodeIDs(was[i].Have), nodeIDs(was[i].Lost)), fmt.Sprint(is[i].Item, nodeIDs(is[i].Have), nodeIDs(is[i].Lost)))
		}
	}
	x, err := plain.Digest(context.Background())
	require.NoError(t, err)
	y, err := marked.Digest(context.Background())
	require.NoError(t, err)
	require.Equal(t, x, y)
}

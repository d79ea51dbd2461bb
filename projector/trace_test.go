package projector

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/streams"
)

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	other  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// traced gives a message the header that a producer may set.
func traced(m streams.Message, header string) streams.Message {
	m.Header = map[string][]string{streams.HeaderTraceparent: {header}}
	return m
}

func traceOf(t *testing.T, header string) streams.Trace {
	tr, ok := streams.ParseTrace(header)
	require.True(t, ok)
	return tr
}

// edgesAt are the edges of one sequence, and the bytes they are stored as.
func edgesAt(t *testing.T, p *Projector, seq uint64) (all []StoredEdge, size int) {
	s := p.Snapshot()
	defer s.Close()
	for part := range testPartitions {
		for e, err := range s.Edges(part, seq) {
			require.NoError(t, err)
			if e.Seq != seq {
				continue
			}
			v, closer, err := p.db.Get(appendEdgeKey(nil, part, seq, e.Policy))
			require.NoError(t, err)
			size += len(v)
			require.NoError(t, closer.Close())
			all = append(all, e)
		}
	}
	return all, size
}

func TestAnEdgeKeepsItsEventsTraceOverARestart(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
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
	require.NoError(t, p.Close())
	p = d.open(t)
	defer func() { require.NoError(t, p.Close()) }()

	for seq, want := range map[uint64]string{3: parent, 6: "", 7: parent} {
		edges, _ := edgesAt(t, p, seq)
		require.NotEmpty(t, edges, "sequence %d", seq)
		for _, e := range edges {
			require.Equal(t, want, e.Trace.String(), "sequence %d", seq)
		}
	}
	require.Len(t, seen, 3)
	require.Equal(t, Traced{
		Trace: traceOf(t, parent), First: 2, Last: 3, Type: "node_updated", Logged: msgs[1].Time, Began: seen[0].Began,
	}, seen[0])
	require.Equal(t, []uint64{4, 5, 1}, []uint64{seen[1].First, seen[1].Last, uint64(seen[1].Rejected)})
	require.Equal(t, uint64(7), seen[2].First)
}

// TestATraceCostsAndChangesNothingElse folds one log with and without traces.
func TestATraceCostsAndChangesNothingElse(t *testing.T) {
	plain, marked, j := openFresh(t), openFresh(t), &journal{}
	j.add(update(t, 1, 1, "a", "role", "web"))
	j.add(revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80))
	j.add(update(t, 3, 1, "a", "role", "db"))
	sizes := map[bool]int{}
	for _, m := range j.msgs {
		require.NoError(t, plain.Apply([]streams.Message{m}))
		require.NoError(t, marked.Apply([]streams.Message{traced(m, parent)}))
		a, n := edgesAt(t, plain, m.Seq)
		b, k := edgesAt(t, marked, m.Seq)
		require.Len(t, b, len(a))
		for i := range b {
			b[i].Trace = streams.Trace{}
		}
		require.Equal(t, a, b)
		sizes[false] += n
		sizes[true] += k - n
	}
	require.Equal(t, 2*len(streams.Trace{}), sizes[true], "two edges")
	require.Equal(t, 2*(8+16+32+3), sizes[false], "head and two sets, and nothing for the trace that is not there")
	x, err := plain.Digest(context.Background())
	require.NoError(t, err)
	y, err := marked.Digest(context.Background())
	require.NoError(t, err)
	require.Equal(t, x, y)
}

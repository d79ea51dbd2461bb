package relay_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
)

// Two processes announce half of the partitions each, and a third asks. The
// stream lost messages behind their backs, of sequences that their fences have
// told in full, and nothing happens that would wake them.
func TestARepublishTellsWhatTheStreamLostAndNothingElse(t *testing.T) {
	p := newPlane(t)
	for i := range 12 {
		p.node(fmt.Sprintf("n%d", i), "role=a")
	}
	p.revise(policyID(1), "role=a", 443)
	var ws []*worker
	for _, announce := range [][]int{{0, 1}, {2, 3}, {}} {
		ws = append(ws, p.start(t.TempDir(), relay.Options{Announce: announce}))
	}
	for _, w := range ws {
		p.ready(w)
		p.converged(w)
	}
	p.eventually(func() bool { return following(t, ws[2], 4, nil) }, "all partitions follow")
	n, _, err := streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{})
	require.NoError(t, err)
	lose(t, p, "n1", "n7")
	lost := p.told(n)
	require.Less(t, len(lost), len(ws[0].rows()))
	before, err := n.State(t.Context())
	require.NoError(t, err)

	asked, err := ws[2].Republish(t.Context())
	require.NoError(t, err)
	require.Len(t, asked, 4)
	p.eventually(func() bool { return following(t, ws[2], 4, asked) }, "every partition was compared")
	p.converged(ws[2])
	var again []string
	after, err := n.State(t.Context())
	require.NoError(t, err)
	for msgs, err := range n.Read(t.Context(), before.Last+1, after.Last, "edict.node.>") {
		require.NoError(t, err)
		for _, m := range msgs {
			again = append(again, m.Subject)
		}
	}
	require.ElementsMatch(t, []string{
		"edict.node.n1." + policyID(1).String(), "edict.node.n7." + policyID(1).String(),
	}, again, "what the stream has is not told again")
	require.NotEqual(t, policy.NodeID("n1").Partition(4), policy.NodeID("n7").Partition(4))
}

// following reports whether so many partitions follow under epochs above those
// asked.
func following(t *testing.T, w *worker, n int, asked []relay.Asked) bool {
	t.Helper()
	all, err := w.Partitions()
	require.NoError(t, err)
	for _, a := range asked {
		if all[a.Partition].Epoch <= a.Epoch {
			return false
		}
	}
	for _, s := range all {
		if s.Mode != relay.Follow || s.Owner == "" {
			return false
		}
	}
	return len(all) == n
}

// lose takes what the node stream says to nodes out of it.
func lose(t *testing.T, p *plane, nodes ...string) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(p.server))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), streams.NodesStream)
	require.NoError(t, err)
	for _, id := range nodes {
		require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject("edict.node."+id+".>")))
	}
}

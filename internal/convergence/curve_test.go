package convergence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestHowEarlierChangesArrivedIsKnownBesideTheLast(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	a := w.id()
	for _, n := range []policy.NodeID{"n1", "n2", "n3", "n4"} {
		w.put(n, "a")
	}
	first := w.revise(a, "a", 1)
	reports := uint64(0)
	report := func(n policy.NodeID, after time.Duration) {
		reports++
		w.report(x, reports, n, w.truth(n), after)
	}
	for i, n := range []policy.NodeID{"n1", "n2", "n3", "n4"} {
		report(n, time.Duration(1+i)*10*time.Second)
	}
	before := w.rollout(x, a).Arrivals
	require.Len(t, before, 1)
	require.Equal(t, [2]uint64{first, 4}, [2]uint64{before[0].Seq, uint64(before[0].Nodes)})
	require.Len(t, before[0].Curve, 4)
	for i, p := range before[0].Curve {
		require.Equal(t, i+1, p.Nodes)
		require.InEpsilon(t, 10*(i+1), p.Seconds, 0.1)
	}
	require.False(t, before[0].Time.IsZero())

	second := w.revise(a, "a", 2)
	require.Equal(t, before, w.rollout(x, a).Arrivals, "of the new one nothing has arrived")
	report("n2", 3*time.Second)
	both := w.rollout(x, a).Arrivals
	require.Len(t, both, 2)
	require.Equal(t, before[0], both[1])
	require.Equal(t, [2]uint64{second, 1}, [2]uint64{both[0].Seq, uint64(both[0].Nodes)})
	require.NotEqual(t, both[0].Revision, both[1].Revision)
	require.InEpsilon(t, 3, *both[0].P99, 0.05)

	for i := range 2 * maxEarlier {
		w.revise(a, "a", 3+uint16(i))
		report("n2", time.Second)
	}
	require.Len(t, w.rollout(x, a).Arrivals, 1+maxEarlier)
}

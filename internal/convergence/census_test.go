package convergence

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// compareCensus holds a census, and every node's own status, against where each node must
// stand.
func (w *world) compareCensus(x *Tracker, stand map[policy.NodeID]State) {
	c, err := x.Census(w.t.Context())
	require.NoError(w.t, err)
	var counts Counts
	ids := slices.Sorted(maps.Keys(stand))
	for _, s := range stand {
		counts[s]++
	}
	require.Equal(w.t, counts, c.Count(Among{}))
	require.Equal(w.t, counts, c.Count(Among{Project: home}))
	require.Zero(w.t, c.Count(Among{Project: uuid.Max}))
	all, err := x.Statuses(append(slices.Clone(ids), "nobody"))
	require.NoError(w.t, err)
	require.Len(w.t, all, len(ids))
	for i, got := range all {
		require.Equal(w.t, ids[i], got.Node)
		require.Equal(w.t, stand[got.Node], got.State, got.Node)
	}
	for s := range States {
		var want []policy.NodeID
		for _, id := range ids {
			if stand[id] == State(s) && id > "n2" {
				want = append(want, id)
			}
		}
		wanted := [len(States)]bool{}
		wanted[s] = true
		require.Equal(w.t, want, slices.Collect(c.Above(Among{}, wanted, "n2")))
	}
	w.compareGroups(c, stand)
}

func (w *world) compareGroups(c *Census, stand map[policy.NodeID]State) {
	by := map[string]Counts{}
	for n, s := range stand {
		x := by[w.roles[n]]
		x[s]++
		by[w.roles[n]] = x
	}
	groups := c.Groups(Among{}, "role")
	require.Len(w.t, groups, len(by))
	open := func(x Counts) int { return x[StateLagging] + x[StateRefused] + x[StateSilent] }
	for i, g := range groups {
		require.False(w.t, g.Absent)
		require.Equal(w.t, by[g.Value], g.Counts)
		require.True(w.t, i == 0 || open(groups[i-1].Counts) >= open(g.Counts), "the group with the most that has not applied first")
	}
	for _, g := range c.Groups(Among{}, "zone") {
		require.True(w.t, g.Absent)
	}
}

func TestACensusBeforeReportsAreReadIsNone(t *testing.T) {
	w := newWorld(t, 0)
	x := New(Options{Model: model{w.fold}, Events: w, Metrics: w})
	_, err := x.Census(t.Context())
	var early *NotReadyError
	require.ErrorAs(t, err, &early)
	_, err = x.Statuses([]policy.NodeID{"n1"})
	require.ErrorAs(t, err, &early)
}

func TestACensusIsUsedAgainWhileNothingMoves(t *testing.T) {
	w := newWorld(t, 0)
	x := w.tracker()
	w.put("n2", "a")
	w.put("n1", "a")
	c, err := x.Census(t.Context())
	require.NoError(t, err)
	again, err := x.Census(t.Context())
	require.NoError(t, err)
	require.Same(t, c, again)
	w.put("n0", "a")
	after, err := x.Census(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, after.Count(Among{}).Nodes())
	require.Equal(t, []policy.NodeID{"n0", "n1", "n2"}, slices.Collect(after.Above(Among{}, [4]bool{true}, "")))
	require.Equal(t, 2, c.Count(Among{}).Nodes(), "a census never changes")
}

// fleetOf is a tracker of n nodes of 72 label sets.
func fleetOf(b *testing.B, n int) *Tracker {
	w := newWorld(b, 0)
	for from := 0; from < n; from += 1000 {
		var batch []streams.Message
		for i := range 1000 {
			e := policy.NodeUpdated{ID: w.id(), Project: home, Node: policy.NodeID(fmt.Sprintf("n%d", from+i)), Labels: label(fmt.Sprint(i % 72))}
			batch = append(batch, streams.Message{Seq: uint64(from + i + 1), Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: at(1)})
		}
		require.NoError(b, w.fold.Apply(batch))
	}
	return w.tracker()
}

// BenchmarkCensus counts a fleet of which nothing is asked.
func BenchmarkCensus(b *testing.B) {
	x := fleetOf(b, 310_000)
	c, err := x.Census(b.Context())
	require.NoError(b, err)
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			again := &Census{}
			require.NoError(b, again.walk(b.Context(), x))
			again.sort(c)
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			again := &Census{}
			require.NoError(b, again.walk(b.Context(), x))
			again.sort(nil)
		}
	})
	b.Run("groups", func(b *testing.B) {
		for b.Loop() {
			require.NotEmpty(b, c.Groups(Among{}, "role"))
		}
	})
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			for id := range c.Above(Among{}, [4]bool{StateRefused: true}, "") {
				b.Fatal(id)
			}
		}
	})
}

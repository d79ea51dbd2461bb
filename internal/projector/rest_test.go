package projector

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// TestAProjectThatComesBackIsWhatItWas archives and restores projects at random places of a
// random log, with restarts between, and holds the rows against the oracle and the memory
// against what a start would make.
func TestAProjectThatComesBackIsWhatItWas(t *testing.T) {
	gen.Unraced()
	came := 0
	check := func(rt *rapid.T) {
		_, drawn := drawLog(rt, rapid.IntRange(10, 40).Draw(rt, "events"))
		d, j, o, archived := newDisk(), &journal{}, newOracle(), map[int]bool{}
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		one := func(e policy.Event) string {
			m := j.add(e)
			require.NoError(rt, p.Apply(j.msgs[m.Seq-1:]))
			v, err := p.Verdict(t.Context(), m.Seq)
			require.NoError(rt, err)
			if v.accepted() {
				o.apply(e)
				return ""
			}
			return "refused"
		}
		for i, e := range drawn {
			if rapid.IntRange(0, 4).Draw(rt, "archive") == 0 {
				proj := rapid.IntRange(1, 2).Draw(rt, "project")
				if archived[proj] {
					require.Empty(rt, one(restore(1000+i, proj)))
					archived[proj] = false
					came++
				} else {
					if proj == 1 { // it has the nodes
						for n, id := range slices.Sorted(maps.Keys(o.nodes)) {
							require.Empty(rt, one(leave(2000+31*i+n, 1, string(id))))
						}
					}
					archived[proj] = one(archive(1000+i, proj)) == ""
				}
			}
			one(e)
			require.Equal(rt, o.rows(), rowsOf(p, nodeNames(31)), "rows at %d", i)
			before := summary(p)
			if rapid.IntRange(0, 5).Draw(rt, "restart") == 0 {
				require.NoError(rt, p.Close())
				p = d.open(rt)
				require.Equal(rt, before, summary(p))
			}
		}
		a, err := p.Digest(t.Context())
		require.NoError(rt, err)
		whole := newDisk().open(rt)
		defer func() { require.NoError(rt, whole.Close()) }()
		require.NoError(rt, whole.Apply(j.msgs))
		b, err := whole.Digest(t.Context())
		require.NoError(rt, err)
		require.Equal(rt, a, b)
		require.Equal(rt, summary(whole), summary(p))
	}
	for rounds := 0; rounds < 20 && came == 0; rounds++ { // a round may happen to have none
		rapid.Check(t, check)
	}
	require.Positive(t, came)
}

// inMemory is how many bytes are in use after a collection.
func inMemory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fleetThatLeft folds a project of so many policies, each with selectors of its own, and as
// many nodes, each with labels of its own, which have gone again.
func fleetThatLeft(t testing.TB, n int) (p *Projector, j *journal) {
	p, j = openFresh(t), &journal{}
	for i := range n {
		j.add(revise(t, 3*i+1, 1, i+1, i+1, 0, fmt.Sprintf("s%d", i), fmt.Sprintf("app=a%d,env=prod", i), 80))
		j.add(update(t, 3*i+2, 1, fmt.Sprintf("n%d", i), "app", fmt.Sprintf("a%d", i), "env", "prod", "host", fmt.Sprintf("h%d", i)))
	}
	for i := range n {
		j.add(leave(3*i+3, 1, fmt.Sprintf("n%d", i)))
	}
	require.NoError(t, p.Apply(j.msgs))
	return p, j
}

// TestAnArchivedProjectTakesLessMemory: it lets go of what its nodes' labels were held
// against, and takes it again when it is restored.
func TestAnArchivedProjectTakesLessMemory(t *testing.T) {
	gen.Unraced()
	const n = 1500
	p, j := fleetThatLeft(t, n)
	change := func(e policy.Event) int {
		before := inMemory()
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
		return (int(inMemory()) - int(before)) / n //nolint:gosec // bytes
	}
	all := inMemory()
	let, taken := change(archive(9_001, 1)), change(restore(9_002, 1))
	t.Logf("%d bytes before, the test's included; by policy and node, %d are let go and %d taken again", all, -let, taken)
	require.Less(t, let, -150)
	require.Greater(t, taken, 50)
	require.Equal(t, "applied", verdict(t, p, j.add(update(t, 9_003, 1, "n7", "app", "a7", "env", "prod"))))
	require.Len(t, rowsOf(p, []policy.NodeID{"n7"})["n7"], 1)
}

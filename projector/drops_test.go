package projector

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/streams"
)

// Edges are dropped four times a second for as long as a plane lives: what the
// next drop and the next reader cost must not depend on how many came before.
func TestADropCostsNoMoreAfterManyDrops(t *testing.T) {
	p, j, names := openFresh(t), &journal{}, nodeNames(4*testPartitions)
	for i, name := range names {
		j.add(update(t, i+1, 1, string(name), "role", "web"))
	}
	require.NoError(t, p.Apply(j.msgs))
	revisions := 0
	cycles := func(n int) (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			revisions++
			m := j.add(revise(t, 1000+revisions, 1, 1, revisions, revisions-1, "p", "role=web", 80+revisions%2))
			require.NoError(t, p.Apply([]streams.Message{m}))
			require.Len(t, edgesOf(t, p), testPartitions)
			require.NoError(t, p.DropEdges(everywhere(p.Applied())))
			require.Empty(t, edgesOf(t, p))
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	cycles(10)
	first := cycles(10)
	cycles(200)
	require.Less(t, cycles(10), 2*first)
}

func TestFewEdgesAndManyAreDroppedWhole(t *testing.T) {
	for _, n := range []int{1, fewEdges, fewEdges + 1} {
		d, j := newDisk(), &journal{}
		p := d.open(t)
		j.add(update(t, 1, 1, "a", "role", "web"))
		for i := range n + 2 {
			j.add(revise(t, 2+i, 1, 1+i, 1+i, 0, fmt.Sprintf("p%d", i), "role=web", 80))
		}
		require.NoError(t, p.Apply(j.msgs))
		require.Len(t, edgesOf(t, p), n+2)
		require.NoError(t, p.DropEdges(everywhere(uint64(1+n))))
		require.Len(t, edgesOf(t, p), 2)
		p = sameAfterReload(t, d, p)
		require.Len(t, edgesOf(t, p), 2)
		require.NoError(t, p.DropEdges(everywhere(p.Applied())))
		p = sameAfterReload(t, d, p)
		require.Empty(t, edgesOf(t, p))
		require.NoError(t, p.Close())
	}
}

func everywhere(seq uint64) map[int]uint64 {
	upTo := map[int]uint64{}
	for part := range testPartitions {
		upTo[part] = seq
	}
	return upTo
}

// edgesOf are the edges in the store.
func edgesOf(t *testing.T, p *Projector) (all []StoredEdge) {
	s := p.Snapshot()
	defer s.Close()
	for part := range testPartitions {
		for e, err := range s.Edges(part, 0) {
			require.NoError(t, err)
			all = append(all, e)
		}
	}
	return all
}

package convergence

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestThoseBehindForTheLongestAreTheFirstOfAllSorted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []late
		for i, seq := range rapid.SliceOfN(rapid.Uint64Range(0, 9), 0, 60).Draw(rt, "seqs") {
			all = append(all, late{ordinal: uint32(i * 7 % 60), seq: seq})
		}
		limit := rapid.IntRange(0, 20).Draw(rt, "limit")
		want := slices.Clone(all)
		slices.SortFunc(want, late.compare)
		kept := newFirst(limit, late.compare)
		for _, l := range all {
			kept.add(l)
		}
		require.Equal(rt, append([]late{}, want[:min(limit, len(want))]...), append([]late{}, kept.sorted()...))
		require.Equal(rt, len(all), kept.count)
	})
}

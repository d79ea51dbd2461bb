package projector

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFormersAreAQueue holds the kept former labels, over several chunks, against a
// slice of them.
func TestFormersAreAQueue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := newFormers()
		nodes := []*node{{ordinal: 3}, {ordinal: 1}, {ordinal: 4}}
		var want []former
		seq := uint64(0)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			n := nodes[rapid.IntRange(0, len(nodes)-1).Draw(rt, "node")]
			for range rapid.IntRange(0, formerChunk).Draw(rt, "added") {
				seq++
				f := former{until: moment{seq: seq}, since: seq / 2}
				got := fs.add(n, f)
				require.Equal(rt, n.ordinal, got.node)
				want = append(want, *got)
			}
			for range rapid.IntRange(0, len(want)).Draw(rt, "dropped") {
				require.Equal(rt, want[0], *fs.oldest())
				fs.drop()
				want = want[1:]
			}
			require.Equal(rt, len(want), fs.len())
			require.LessOrEqual(rt, len(fs.chunks), len(want)/formerChunk+2, "what was dropped takes no memory")
			for _, n := range nodes {
				var of, all []former
				fs.of(n, func(f *former) bool { of = append(of, *f); return true })
				for _, f := range slices.Backward(want) {
					if f.node == n.ordinal {
						all = append(all, f)
					}
				}
				require.Equal(rt, all, of)
			}
		}
		if fs.len() == 0 {
			require.Nil(rt, fs.oldest())
		}
	})
}

package projector

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

// fleetLayout is a layout of n nodes, spread evenly.
func fleetLayout(parts, n int) *layout {
	l := newLayout(parts)
	for i := range n {
		l.enter(&node{ordinal: l.ordinal(i%parts, uint32(i/parts))})
	}
	return &l
}

// TestANodeSetIsASet adds and removes at random while the fleet grows, and
// holds the set, in whichever form it is, against a map. It begins with an empty
// set, and with one of the whole fleet.
func TestANodeSetIsASet(t *testing.T) {
	t.Run("sparse at first", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			var s nodeSet
			nodeSetIsASet(rt, anyLayout(rt, 1), &s, map[uint32]bool{})
		})
	})
	t.Run("dense at first", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			l := anyLayout(rt, 2*denseLeast)
			var s nodeSet
			want := map[uint32]bool{}
			for part := range l.byOrdinal {
				for place := range l.byOrdinal[part] {
					o := l.ordinal(part, uint32(place))
					s.add(l, o)
					want[o] = true
				}
			}
			require.NotNil(rt, s.dense)
			nodeSetIsASet(rt, l, &s, want)
		})
	})
}

// anyLayout is a layout of at least so many nodes.
func anyLayout(rt *rapid.T, least int) *layout {
	parts := rapid.SampledFrom([]int{1, 3, 4, 64}).Draw(rt, "partitions")
	return fleetLayout(parts, rapid.IntRange(least, 6000).Draw(rt, "nodes"))
}

// nodeSetIsASet draws steps that change s and want alike, and holds s against
// want.
func nodeSetIsASet(rt *rapid.T, l *layout, s *nodeSet, want map[uint32]bool) {
	parts := l.parts
	for range rapid.IntRange(1, 40).Draw(rt, "steps") {
		part := rapid.IntRange(0, parts-1).Draw(rt, "partition")
		at := rapid.IntRange(0, max(0, len(l.byOrdinal[part])-1)).Draw(rt, "place")
		step := rapid.IntRange(1, 70).Draw(rt, "step")
		add := rapid.Bool().Draw(rt, "add")
		for place := at; place < len(l.byOrdinal[part]); place += step {
			o := l.ordinal(part, uint32(place))
			if add {
				s.add(l, o)
				want[o] = true
			} else {
				s.remove(l, o)
				delete(want, o)
			}
		}
	}
	require.Equal(rt, len(want), s.len())
	require.Equal(rt, slices.Sorted(maps.Keys(want)), all(l, s))

	u := make(union, parts)
	u.add(l, s)
	told := l.setOf(u)
	if told.many != nil {
		told.many.all = l.byOrdinal
	}
	var got []uint32
	for part := range parts {
		told.Each(part, func(o NodeRef, _ policy.NodeID) bool { got = append(got, uint32(o)); return true })
	}
	require.Equal(rt, slices.Sorted(maps.Keys(want)), got)
	require.Equal(rt, len(want), told.Len())
	for part := range parts {
		for place := range l.byOrdinal[part] {
			o := l.ordinal(part, uint32(place))
			require.Equal(rt, want[o], told.Has(NodeRef(o)))
		}
	}
	require.False(rt, told.Has(1<<32-1))
}

func all(l *layout, s *nodeSet) (out []uint32) {
	s.each(l, func(o uint32) bool { out = append(out, o); return true })
	return out
}

func TestANodeSetTakesTheFormThatItsShareOfTheFleetDeserves(t *testing.T) {
	l := fleetLayout(4, 4*64*100) // 400 words
	var s nodeSet
	for i := range 199 {
		s.add(l, uint32(i*31))
	}
	require.Nil(t, s.dense)
	s.add(l, 199*31)
	require.NotNil(t, s.dense, "a member for every two words")
	for i := range 150 {
		s.remove(l, uint32(i*31))
	}
	require.NotNil(t, s.dense)
	s.remove(l, 150*31)
	require.Nil(t, s.dense, "less than one for every eight")
	require.Equal(t, 49, s.len())
}

func TestAUnionHoldsTheNodesOfAllItsSets(t *testing.T) {
	l := fleetLayout(4, 4*1000)
	u := make(union, 4)
	for _, kinds := range []int{7, 300} { // dense sets, then sparse ones
		sets := make([]nodeSet, kinds)
		for i := range 1000 {
			if i%3 > 0 {
				for part := range 4 {
					sets[i%kinds].add(l, l.ordinal(part, uint32(i)))
				}
			}
		}
		require.Equal(t, kinds == 7, sets[0].dense != nil)
		for i := range sets {
			u.add(l, &sets[i])
		}
		for part := range 4 {
			for i := range 1000 {
				require.Equal(t, i%3 > 0, len(u[part]) > i/64 && u[part][i/64]>>(i%64)&1 == 1, "place %d", i)
			}
		}
		u.reset()
	}
}

package projector

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestASetIsASet holds a set, small or large, against a map of its members.
func TestASetIsASet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, want := anySet(rt, "s")
		for range rapid.IntRange(1, 5).Draw(rt, "steps") {
			o, other := anySet(rt, "o")
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				s.join(&o)
				maps.Copy(want, other)
			case 1:
				s.intersect(&o)
				maps.DeleteFunc(want, func(x uint32, _ bool) bool { return !other[x] })
			case 2:
				s.subtract(&o)
				maps.DeleteFunc(want, func(x uint32, _ bool) bool { return other[x] })
			case 3:
				for x := range other {
					s.remove(x)
					s.remove(x)
					delete(want, x)
				}
			case 4:
				copied := s.clone()
				copied.add(1 << 20)
				copied.remove(first(&copied))
			}
			require.Equal(rt, len(want), s.len())
			require.Equal(rt, slices.Sorted(maps.Keys(want)), members(&s))
			var run []uint32
			for r := range s.runs() {
				run = append(run, r...)
			}
			require.Equal(rt, members(&s), run)
		}
	})
}

// anySet is a set around the size at which it turns into a bitmap.
func anySet(rt *rapid.T, name string) (s set, members map[uint32]bool) {
	members = map[uint32]bool{}
	n := rapid.SampledFrom([]int{0, 1, smallSet - 1, smallSet, smallSet + 1, 3 * smallSet, 9 * smallSet}).Draw(rt, name+" size")
	from := uint32(rapid.IntRange(0, 2*smallSet).Draw(rt, name+" from"))
	step := uint32(rapid.IntRange(1, 400).Draw(rt, name+" step"))
	falls := rapid.Bool().Draw(rt, name+" falls")
	for i := range n {
		if falls {
			i = n - 1 - i
		}
		x := from + uint32(i)*step
		s.add(x)
		s.add(x)
		members[x] = true
	}
	return s, members
}

func members(s *set) (out []uint32) {
	s.each(func(x uint32) bool { out = append(out, x); return true })
	return out
}

func first(s *set) (x uint32) {
	s.each(func(member uint32) bool { x = member; return false })
	return x
}

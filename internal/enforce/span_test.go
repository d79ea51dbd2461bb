package enforce

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Each point has the value of the narrowest prefix that holds it.
func TestNestedPrefixesLieFlat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const bits = 6 // of the points drawn
		nested := []span[port, string]{{0, 1<<bits - 1, "all"}}
		for i := range rapid.IntRange(0, 12).Draw(t, "prefixes") {
			length := rapid.IntRange(0, bits).Draw(t, "length")
			size := port(1) << (bits - length)
			from := port(rapid.IntRange(0, 1<<length-1).Draw(t, "from")) * size
			nested = append(nested, span[port, string]{from, from + size - 1, string(rune('a' + i%5))})
		}
		slices.SortStableFunc(nested, func(a, b span[port, string]) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
		})
		want := make([]string, 1<<bits)
		width := slices.Repeat([]port{1 << 16}, 1<<bits)
		for _, s := range nested {
			for p := s.from; p <= s.to; p++ {
				if w := s.to - s.from; w <= width[p] {
					want[p], width[p] = s.value, w
				}
			}
		}
		var got []string
		flat := flatten(nested)
		for i, s := range flat {
			require.Equal(t, port(len(got)), s.from, "without a gap")
			require.False(t, i > 0 && flat[i-1].value == s.value, "neighbours differ")
			got = append(got, slices.Repeat([]string{s.value}, int(s.to-s.from+1))...)
		}
		require.Equal(t, want, got)
	})
}

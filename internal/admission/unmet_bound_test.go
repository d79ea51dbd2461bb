package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A list of so many values that trying them would take long is not tried to its end.
func TestALongListIsNotTriedToItsEnd(t *testing.T) {
	lists := func(n int) map[string]any {
		var one, other []any
		for i := range n {
			one, other = append(one, float64(i)), append(other, float64(n+i))
		}
		return map[string]any{"allOf": []any{map[string]any{"enum": one}, map[string]any{"enum": other}}}
	}
	for n, want := range map[int]bool{20: true, 2000: false} {
		s, err := compileSchema(lists(n), 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, s.unmet != "", "%d values", n)
	}
}

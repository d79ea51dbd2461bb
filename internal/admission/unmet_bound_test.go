package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// disjoint is a schema of two lists of n values that have none in common.
func disjoint(n, from int) map[string]any {
	var one, other []any
	for i := range n {
		one, other = append(one, float64(from+i)), append(other, float64(from+n+i))
	}
	return map[string]any{"allOf": []any{map[string]any{"enum": one}, map[string]any{"enum": other}}}
}

// A list of so many values that trying them would take long is not tried to its end.
func TestALongListIsNotTriedToItsEnd(t *testing.T) {
	gen.Unraced()
	for n, want := range map[int]bool{20: true, 800: false} {
		s, err := compileSchema(disjoint(n, 0), 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, s.unmetAlone(newSearch()) != "", "%d values", n)
	}
}

// All constraints of a request share what may be spent on finding out that nothing
// meets them, and a schema that could not be afforded in one is looked at in the next.
func TestConstraintsOfARequestShareTheSearch(t *testing.T) {
	gen.Unraced()
	by, found := newSearch(), 0
	var schemas []*schema
	for i := range 1000 {
		s, err := compileSchema(disjoint(20, 100*i), 64)
		require.NoError(t, err)
		schemas = append(schemas, s)
		if s.unmetAlone(by) != "" {
			found++
		}
	}
	require.Greater(t, found, 10)
	require.Less(t, found, len(schemas)/2)
	require.NotEmpty(t, schemas[len(schemas)-1].unmetAlone(newSearch()))
	pairs := newSearch()
	require.NotEmpty(t, pairs.unmet(schemas[0], schemas[1]))
	pairs.left = 0
	require.Empty(t, pairs.unmet(schemas[0], schemas[1]))
}

package admission

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWhatIsAppendedIsWhatTheLibraryWrites compares the encoder with encoding/json.
func TestWhatIsAppendedIsWhatTheLibraryWrites(t *testing.T) {
	value := anyJSON()
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		want, err := json.Marshal(v)
		require.NoError(t, err)
		got, err := AppendJSON([]byte("x"), v)
		require.NoError(t, err)
		require.Equal(t, "x"+string(want), string(got))
	})
	for _, v := range []any{json.Number(""), []any(nil), map[string]any(nil), "a\u2028<b>&\xff\"\\\x00"} {
		want, err := json.Marshal(v)
		require.NoError(t, err)
		got, err := AppendJSON(nil, v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	_, err := AppendJSON(nil, map[string]any{"a": []any{math.NaN()}})
	require.Error(t, err)
}

func anyJSON() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.StringMatching(`[a-z<>&"\\ é]{0,6}`), func(s string) any { return s }),
		rapid.Map(rapid.Float64Range(-1e30, 1e30), func(f float64) any { return f }),
		rapid.Map(rapid.Int(), func(i int) any { text, _ := json.Marshal(i); return json.Number(text) }),
	)
	value := leaf
	for range 3 {
		below := value
		value = rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(below, 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), below, 0, 20), func(m map[string]any) any { return m }))
	}
	return value
}

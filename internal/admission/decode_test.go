package admission

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWhatIsValidIsParsedAlike compares the decoder of valid JSON with encoding/json.
func TestWhatIsValidIsParsedAlike(t *testing.T) {
	value := anyJSON()
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.MarshalIndent(map[string]any{"a": value.Draw(t, "value"), "b": value.Draw(t, "other")}, " ", rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"))
		require.NoError(t, err)
		want, err := ParsePayload(text)
		require.NoError(t, err)
		got, err := ParseValid(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	for _, text := range []string{"", " ", "null", "[]", "7", `{"a"`, `{"a":}`, `{"a":tru}`, `{"a":"x`, `{"a":"x\`, `{"a":[1 2]}`, `{} {}`, `{"a" 1}`, `{a:1}`, `{"a":1`} {
		_, want := ParsePayload([]byte(text))
		require.Error(t, want, text)
		_, got := ParseValid([]byte(text))
		require.Equal(t, want, got, text)
	}
}

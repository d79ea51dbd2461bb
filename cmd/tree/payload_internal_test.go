package tree

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPayloadsAreComparedButForTheirWhiteSpace(t *testing.T) {
	for _, c := range []struct {
		held, now string
		same      bool
	}{
		{"{\n  \"a\": [1, 2]\n}", `{"a":[1,2]}`, true},
		{`{"a": " b\" c\\"}`, `{"a":" b\" c\\"}`, true},
		{`{"a": "b c"}`, `{"a":"bc"}`, false},
		{`{"a": "\" "}`, `{"a":"\""}`, false},
		{`{"a": "\\" }`, `{"a":"\\"}`, true},
		{`{"a": 1}`, `{"a":12}`, false},
		{`{"a": 12}`, `{"a":1}`, false},
		{`{"a":1}`, `{"a": 1}`, false}, // and then the canonical forms are compared
		{`"\`, `"\`, false},
		{``, ``, true},
	} {
		require.Equal(t, c.same, samePayload([]byte(c.held), []byte(c.now)), "%s and %s", c.held, c.now)
	}
	texts := rapid.SliceOf(rapid.SampledFrom([]string{" ", "\n", `"`, `\`, "a", "{", "}", ":", ",", "1"}))
	rapid.Check(t, func(t *rapid.T) {
		value := func(name string) []byte {
			text, err := json.Marshal(map[string]any{"x": texts.Draw(t, name)})
			require.NoError(t, err)
			return text
		}
		one, two := value("one"), value("two")
		var indented bytes.Buffer
		require.NoError(t, json.Indent(&indented, one, "", "  "))
		require.Equal(t, bytes.Equal(one, two), samePayload(indented.Bytes(), two))
		require.True(t, samePayload(indented.Bytes(), one))
	})
}

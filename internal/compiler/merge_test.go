package compiler_test

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func row(n byte, payload string) compiler.Row {
	return compiler.Row{
		Policy: uuid.UUID{15: n}, Revision: uuid.UUID{0: 1, 15: n},
		Fingerprint: compiler.FingerprintOf([]byte(payload)), Payload: []byte(payload),
	}
}

func TestMerge(t *testing.T) {
	cases := []struct {
		name        string
		rows        []compiler.Row
		rules       string
		revision    byte
		fingerprint string // of this text, unless it is 44 characters of base64
	}{
		{"one row is itself", []compiler.Row{row(7, `[{"a":1}]`)}, `[{"a":1}]`, 7, `[{"a":1}]`},
		{"rows come in policy order", []compiler.Row{row(9, `[3]`), row(2, `[1,2]`)}, `[1,2,3]`, 2, `[1,2][3]`},
		{"an empty row adds bytes to the hash and none to the rules", []compiler.Row{row(1, `[]`), row(2, `[1]`), row(3, `[]`)}, `[1]`, 1, `[][1][]`},
		{"two empty rows", []compiler.Row{row(1, `[]`), row(2, `[]`)}, `[]`, 1, "ghvwa03LQG6lCKSpkurcIvKYUM0gi6JK6nwpFI3ozPE="},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			first := c.rows[0]
			b, ok := compiler.Merge(c.rows)
			require.True(t, ok)
			require.Equal(t, c.rules, string(b.Rules))
			require.Equal(t, uuid.UUID{0: 1, 15: c.revision}, b.Revision)
			if len(c.fingerprint) == 44 {
				require.Equal(t, c.fingerprint, b.Fingerprint.String())
			} else {
				require.EqualValues(t, sha256.Sum256([]byte(c.fingerprint)), b.Fingerprint)
			}
			require.Equal(t, first, c.rows[0], "the caller's rows stay in their order")
		})
	}
	_, ok := compiler.Merge(nil)
	require.False(t, ok, "no rows, no block")
}

func TestMergeDoesNotDependOnRowOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Byte(), 1, 8, func(b byte) byte { return b }).Draw(t, "policies")
		rows := make([]compiler.Row, len(ids))
		total := 0
		for i, id := range ids {
			rs := compiler.Compile(anyRules(t))
			rows[i] = row(id, string(rs.Payload))
			total += rs.Rules
		}
		want, _ := compiler.Merge(rows)
		got, _ := compiler.Merge(rapid.Permutation(rows).Draw(t, "order"))
		require.Equal(t, want, got)
		var list []json.RawMessage
		require.NoError(t, json.Unmarshal(got.Rules, &list))
		require.Len(t, list, total)
	})
}

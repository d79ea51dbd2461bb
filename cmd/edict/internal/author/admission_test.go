package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const denial = "package dcm.policy.name\n\nresult := {\"reject\": true} if input.current_request_payload.name == \"Müller\"\n"

// Code that is not UTF-8 would be another code once it is written as JSON: its texts would
// match nothing, and the policy reject nothing.
func TestCodeThatIsNotUTF8IsRefused(t *testing.T) {
	dir := t.TempDir()
	latin := strings.ReplaceAll(denial, "ü", "\xfc")
	for name, text := range map[string]string{"named/code.rego": latin, "named/p.yaml": "name: p\npolicy_type: Global\nrego_file: code.rego\n", "alone.rego": latin} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, name := range []string{"named", "alone.rego"} {
		_, faults := AdmissionDrafts(t.Context(), []string{filepath.Join(dir, name)}, strings.NewReader(""))
		require.NotEmpty(t, faults, name)
		require.Contains(t, faults[0].Message, "not UTF-8 text, in line 3; save the file as UTF-8", name)
		require.True(t, faults[0].Unreadable, name)
	}
}

// Programs on Windows put a mark in front of a text. Behind it METADATA is METADATA.
func TestCodeMayBeginWithAByteOrderMark(t *testing.T) {
	dir := t.TempDir()
	text := "\ufeff# METADATA\r\n# title: marked\r\n# custom:\r\n#   policy_type: Global\r\n" + denial
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.rego"), []byte(text), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "q.yaml"), []byte("name: q\npolicy_type: Global\npriority: 1\nrego_file: sub/code.rego\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "code.rego"), []byte(text), 0o600))
	drafts, faults := AdmissionDrafts(t.Context(), []string{dir}, strings.NewReader(""))
	require.Empty(t, faults)
	require.Len(t, drafts, 2)
	for _, d := range drafts {
		require.True(t, strings.HasPrefix(d.Rego, "# METADATA"), "%s: %.20q", d.Name, d.Rego)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong with a file and a command line is broken between words on a terminal; a file, a pipe and
// what programs read are not touched.
func TestFaultsAreBrokenBetweenWords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	require.NoError(t, os.WriteFile(file, []byte("slug: web\ncolour: red\n"), 0o600))
	apply := func(l *look, more ...string) string {
		args := append([]string{"policy", "apply", "-f", file, "--server", "http://127.0.0.1:1"}, more...)
		run(t.Context(), args, strings.NewReader(""), l, l)
		return l.String()
	}
	whole := apply(new(look))
	broken := apply(&look{columns: 60})
	require.NotEqual(t, whole, broken)
	require.Equal(t, strings.Fields(whole), strings.Fields(broken), "no word is cut")
	for line := range strings.Lines(broken) {
		require.True(t, len(line) <= 61 || !strings.Contains(strings.TrimSpace(line), " "), line)
	}
	require.Equal(t, 1, strings.Count(apply(&look{columns: 60}, "-o", "json"), "\n"), "JSON is one line")
}

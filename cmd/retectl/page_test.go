package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// The page says with which commands one's own files become a rete. They are run as
// they stand there.
func TestTheCommandsOfThePageMakeAReteOfTwoNodes(t *testing.T) {
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "repository.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## Begin by hand\n")
	require.True(t, ok)
	_, section, _ = strings.Cut(section, "```\n")
	block, _, ok := strings.Cut(section, "```\n")
	require.True(t, ok)
	commands := strings.Split(strings.TrimSpace(block), "\n")
	const most = 10
	require.LessOrEqual(t, len(commands), most)

	story, err := os.ReadFile(filepath.Join("testdata", "bundle.txtar"))
	require.NoError(t, err)
	_, sources, ok := strings.Cut(string(story), "\n-- hand/rete.yaml --\n")
	require.True(t, ok)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("hand", 0o755))
	require.NoError(t, os.WriteFile("hand/rete.yaml", []byte(sources), 0o600))
	for _, c := range commands {
		words := strings.Fields(c)
		require.Equal(t, "retectl", words[0])
		var stdout, stderr bytes.Buffer
		require.Zero(t, run(t.Context(), words[1:], &stdout, &stderr), "%s: %s%s", c, &stdout, &stderr)
	}
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"verify", "hand/.flor/compiled", "--repo", "hand"}, &stdout, &stderr), stderr.String())
	require.Contains(t, stdout.String(), "ok: 4 artifacts")
	require.FileExists(t, "laptop-root/trust.json")
}

package rete_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
)

// compiled loads, judges and compiles a repository that has no fault.
func compiled(t *testing.T, repo fs.FS) []rete.NodeSet {
	t.Helper()
	sets, faults := rete.Compile(judged(t, repo))
	require.Empty(t, faults)
	return sets
}

func judged(t *testing.T, repo fs.FS) *rete.Model {
	t.Helper()
	files, faults := rete.Discover(repo)
	require.Empty(t, faults)
	view, faults := rete.Load(repo, files)
	require.Empty(t, faults)
	m, faults := rete.Validate(view, repo)
	require.Empty(t, faults)
	return m
}

// sameAsTree holds what was compiled against a tree of artifacts that somebody
// else wrote.
func sameAsTree(t *testing.T, tree fs.FS, sets []rete.NodeSet) {
	t.Helper()
	n := 0
	for _, s := range sets {
		for _, a := range s.Artifacts {
			text, err := fs.ReadFile(tree, s.Node+"/"+a.Path())
			require.NoError(t, err)
			var e struct{ Payload json.RawMessage }
			require.NoError(t, json.Unmarshal(text, &e))
			require.JSONEq(t, string(e.Payload), string(a.Payload), "%s of %s", a.Path(), s.Node)
			n++
		}
	}
	files, err := fs.Glob(tree, "*/mgmt/*.json")
	require.NoError(t, err)
	vertices, err := fs.Glob(tree, "*/mgmt/vertices/*.json")
	require.NoError(t, err)
	require.Len(t, append(files, vertices...), n)
}

func TestTheExampleRepositoryCompilesAsItsAuthorsComputed(t *testing.T) {
	dir, err := gen.Fixtures()
	if errors.Is(err, gen.ErrNoFixtures) {
		leftout.Here(t, "%v", err)
	}
	require.NoError(t, err)
	dir = filepath.Join(dir, "rete", "own-example")
	sameAsTree(t, os.DirFS(filepath.Join(dir, "expected-v1")), compiled(t, os.DirFS(filepath.Join(dir, "repo"))))
}

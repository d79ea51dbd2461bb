package tree_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// unsynced is a disk that is not waited for: no power cut is tried here.
type unsynced struct{ tree.Disk }

func (unsynced) SyncAll(string) error { return nil }

func (unsynced) SyncDir(string) error { return nil }

// Two trees of one history are equal to the byte: one of them grows from the tree
// before it, which a stranger changes, and the other is written anew every time.
func TestATreeThatGrowsFromTheOneBeforeIsTheTreeThatIsWrittenAnew(t *testing.T) {
	w := newWorld(t)
	// One has a node less than the others: it goes and comes back.
	repo := reterepo.Example()
	for file, change := range map[string][2]string{
		"nodes.yaml": {"  alice-laptop:\n    vertices:\n      - { name: flor, kind: link, type: quic }\n", ""},
		"users.yaml": {"at: alice-laptop", "at: beta"},
	} {
		text := strings.Replace(string(repo[file].Data), change[0], change[1], 1)
		require.NotEqual(t, text, string(repo[file].Data))
		repo[file].Data = []byte(text)
	}
	repositories := [][]rete.NodeSet{w.before, w.after, w.sets(t, repo)}
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		grown, anew := filepath.Join(base, fmt.Sprint(run), "grown"), filepath.Join(base, fmt.Sprint(run), "anew")
		for step := range rapid.IntRange(2, 4).Draw(t, "steps") {
			var asked tree.Versioning
			if step == 0 {
				asked.Asked = 1
			} else if rapid.IntRange(0, 9).Draw(t, "renew") == 0 {
				asked.Renew = true
			}
			sets := rapid.SampledFrom(repositories).Draw(t, "repository")
			for _, out := range []string{grown, anew} {
				held := &tree.Tree{}
				if step > 0 {
					var err error
					held, err = tree.Read(os.DirFS(out))
					require.NoError(t, err)
				}
				plan, err := tree.NewPlan(sets, held, w.trust, asked)
				require.NoError(t, err)
				if out == grown {
					plan.KeepSpareFrom(1)
				}
				if !plan.Empty() {
					require.NoError(t, plan.Write(context.Background(), unsynced{}, out, w.signer, time.Unix(int64(step), 0)))
				}
			}
			require.Equal(t, everything(t, anew), everything(t, grown))
			_, faults := tree.Verify(os.DirFS(grown), w.trust)
			require.Empty(t, faults)
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				strange(t, tree.Next(grown))
			}
		}
		require.NoError(t, os.RemoveAll(filepath.Dir(grown)))
	})
}

// everything is what is below a directory: a text by path, and directories as such.
func everything(t require.TestingT, dir string) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, _ := filepath.Rel(dir, path)
		all[below] = d.Type().String()
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[below] += string(text)
			return err
		}
		return nil
	}))
	return all
}

// strange changes something in a directory, as a stranger may, or takes it away.
func strange(t *rapid.T, dir string) {
	var paths []string
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			paths = append(paths, path)
		}
		return nil
	})
	if len(paths) == 0 {
		return // there is none before the second compile
	}
	path := rapid.SampledFrom(paths).Draw(t, "path")
	info, err := os.Lstat(path)
	require.NoError(t, err)
	text, _ := os.ReadFile(path)
	remove := func() { require.NoError(t, os.RemoveAll(path)) }
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0: // gone
		remove()
	case 1: // another text, or a file where a directory was
		remove()
		require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
	case 2: // a link to what it was
		elsewhere := filepath.Join(filepath.Dir(dir), fmt.Sprint("elsewhere-", len(paths)))
		require.NoError(t, os.RemoveAll(elsewhere))
		require.NoError(t, os.Rename(path, elsewhere))
		require.NoError(t, os.Symlink(elsewhere, path))
	case 3: // something more
		if info.IsDir() {
			require.NoError(t, os.MkdirAll(filepath.Join(path, "more", "below"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(path, "more.json"), text, 0o644))
		}
	case 4: // a file of another node
		if other := rapid.SampledFrom(paths).Draw(t, "other"); info.Mode().IsRegular() && other != path {
			remove()
			_ = os.Link(other, path) // not if it is a directory, or went
		}
	case 5: // an empty directory
		remove()
		require.NoError(t, os.MkdirAll(path, 0o755))
	}
}

package tree_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/crashfs"
	"github.com/edictdev/edict/internal/test/reterepo"
)

const out = "repo/.flor/compiled"

var every = flag.Int("crash.every", 5, "crash at every n-th step while files are written, and at each step of what follows")

// world compiles the example repository, before and after a change.
type world struct {
	before, after []rete.NodeSet
	signer        *artifact.Signer
	trust         *artifact.TrustSet
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{trust: artifact.NewTrustSet()}
	repo := reterepo.Example()
	w.before = w.sets(t, repo)
	repo["services/teams.yaml"].Data = []byte(strings.Replace(string(repo["services/teams.yaml"].Data), "groups: [db]", "groups: [admin]", 1))
	w.after = w.sets(t, repo)
	return w
}

func (w *world) sets(t *testing.T, repo fs.FS) []rete.NodeSet {
	t.Helper()
	names, _ := rete.Discover(repo)
	view, faults := rete.Load(repo, names)
	require.Empty(t, faults)
	m, faults := rete.Validate(view, repo)
	require.Empty(t, faults)
	sets, faults := rete.Compile(m)
	require.Empty(t, faults)
	s, err := artifact.ParseSigner(reterepo.KeyPEM("primary"))
	require.NoError(t, err)
	w.signer = s.As(m.Signers[0].SPIFFE)
	require.NoError(t, w.trust.Add(artifact.PlaneMgmt, m.Signers[0].SPIFFE, s.PublicKey(), time.Time{}))
	return sets
}

// compile is what retectl compile does once it has the sets.
func (w *world) compile(m *crashfs.FS, sets []rete.NodeSet, version uint64) error {
	if err := tree.Recover(m, out); err != nil {
		return err
	}
	held, err := tree.Read(m.Sub(out))
	if err != nil {
		return err
	}
	plan, err := tree.NewPlan(sets, held, w.trust, tree.Versioning{Asked: version})
	if err != nil || plan.Empty() {
		return err
	}
	return plan.Write(context.Background(), m, out, w.signer, time.Unix(1776686400, 0))
}

func TestACrashAtAnyStepOfACompileLeavesTheOldTreeOrTheNew(t *testing.T) {
	w := newWorld(t)
	for _, exchange := range []bool{true, false} {
		for _, left := range crashfs.Afters {
			t.Run(fmt.Sprintf("exchange %v, %v", exchange, left), func(t *testing.T) {
				w.crashEverywhere(t, exchange, left)
			})
		}
	}
}

func (w *world) crashEverywhere(t *testing.T, exchange bool, left crashfs.After) {
	first := crashfs.New(exchange)
	require.NoError(t, w.compile(first, w.before, 1))
	m := first.Settle(0)
	old := m.Files(out)
	require.NoError(t, w.compile(m, w.after, 0))
	fresh, steps := m.Files(out), m.Steps()
	require.NotEqual(t, old, fresh)
	require.Len(t, m.Files("."), len(fresh), "nothing is left beside the tree")

	seen := map[string]int{}
	const last = 8 // in which the trees change places
	for step := 1; step <= steps; step++ {
		if step <= steps-last && step%*every != 0 {
			continue
		}
		m := first.Settle(step)
		require.ErrorIs(t, w.compile(m, w.after, 0), crashfs.ErrCrash)
		after := m.Crash(left)
		require.NoError(t, tree.Recover(after, out))
		switch got := after.Files(out); {
		case maps.Equal(got, old):
			seen["old"]++
		case maps.Equal(got, fresh):
			seen["new"]++
		default:
			t.Fatalf("a crash before step %d of %d leaves neither tree: %v", step, steps, slices.Sorted(maps.Keys(after.Files("."))))
		}
		// And the next compile ends it.
		require.NoError(t, w.compile(after, w.after, 0))
		require.Equal(t, fresh, after.Files(out))
	}
	t.Logf("%d steps: %v", steps, seen)
	require.Positive(t, seen["old"])
}

func TestOnDiskTheNewTreeReplacesTheOldWhole(t *testing.T) {
	w := newWorld(t)
	dir := path.Join(t.TempDir(), ".flor", "compiled")
	plan, err := tree.NewPlan(w.before, &tree.Tree{}, w.trust, tree.Versioning{Asked: 1})
	require.NoError(t, err)
	require.NoError(t, plan.Write(t.Context(), tree.Disk{}, dir, w.signer, time.Unix(0, 0)))
	require.NoError(t, plan.Write(t.Context(), tree.Disk{}, dir, w.signer, time.Unix(0, 0)), "over the tree that is there")
	names, err := fs.Glob(os.DirFS(path.Dir(dir)), "*")
	require.NoError(t, err)
	require.Equal(t, []string{"compiled"}, names)
	n, faults := tree.Verify(os.DirFS(dir), w.trust)
	require.Empty(t, faults)
	require.Equal(t, 8, n)

	// A compile that is given up leaves the tree as it is.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plan, err = tree.NewPlan(w.after, &tree.Tree{}, w.trust, tree.Versioning{Asked: 2})
	require.NoError(t, err)
	require.ErrorIs(t, plan.Write(ctx, tree.Disk{}, dir, w.signer, time.Unix(0, 0)), context.Canceled)
	held, err := tree.Read(os.DirFS(dir))
	require.NoError(t, err)
	require.EqualValues(t, 1, held.Highest())
}

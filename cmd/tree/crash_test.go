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
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

const out = "repo/.flor/compiled"

var every = flag.Int("crash.every", 5, "crash at every n-th step while files are written, and at each step of what follows")

// world compiles the example repository, before and after a change.
type world struct {
	before, after []rete.NodeSet
	signer        *artifact.Signer
	trust         *artifact.TrustSet
	spares        bool // whether the replaced tree is kept
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
	require.Empty(t, rete.Violations(faults))
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
	if w.spares {
		plan.KeepSpareFrom(1)
	}
	return plan.Write(context.Background(), m, out, w.signer, time.Unix(1776686400, 0))
}

func TestACrashAtAnyStepOfACompileLeavesTheOldTreeOrTheNew(t *testing.T) {
	gen.Unraced()
	w := newWorld(t)
	for _, w.spares = range []bool{false, true} {
		for _, exchange := range []bool{true, false} {
			for _, left := range crashfs.Afters {
				t.Run(fmt.Sprintf("spares %v, exchange %v, %v", w.spares, exchange, left), func(t *testing.T) {
					w.crashEverywhere(t, exchange, left)
				})
			}
		}
	}
}

// compiled is a file system with a tree, and with the one before if that is kept.
func (w *world) compiled(t *testing.T, exchange bool) *crashfs.FS {
	first := crashfs.New(exchange)
	require.NoError(t, w.compile(first, w.before, 1))
	if w.spares {
		require.NoError(t, w.compile(first, w.after, 0))
		require.NoError(t, w.compile(first, w.before, 0))
	}
	return first.Settle(0)
}

func (w *world) crashEverywhere(t *testing.T, exchange bool, left crashfs.After) {
	first := w.compiled(t, exchange)
	m := first.Settle(0)
	old := m.Files(out)
	require.NoError(t, w.compile(m, w.after, 0))
	fresh, steps := m.Files(out), m.Steps()
	require.NotEqual(t, old, fresh)
	w.requireNothingElse(t, m)

	seen := map[string]int{}
	const last = 8 // in which the trees change places
	for step := 1; step <= steps; step++ {
		if step <= steps-last && step%*every != 0 {
			continue
		}
		m := first.Settle(step)
		require.ErrorIs(t, w.compile(m, w.after, 0), crashfs.ErrCrash)
		after := m.Crash(left)
		seen[w.requireOldOrNew(t, after, old, fresh, "a crash before step %d of %d", step, steps)]++
		// And the next compile ends it.
		require.NoError(t, w.compile(after, w.after, 0))
		require.Equal(t, fresh, after.Files(out))
	}
	t.Logf("%d steps: %v", steps, seen)
	require.Positive(t, seen["old"])
}

// requireNothingElse requires that nothing is beside the tree but the one before, if
// that is kept.
func (w *world) requireNothingElse(t *testing.T, m *crashfs.FS) {
	spare := m.Files(tree.Next(out))
	require.Len(t, m.Files("."), len(m.Files(out))+len(spare))
	require.Equal(t, w.spares, len(spare) > 0)
}

func (w *world) requireOldOrNew(t *testing.T, m *crashfs.FS, old, fresh map[string]string, format string, args ...any) string {
	require.NoError(t, tree.Recover(m, out))
	switch got := m.Files(out); {
	case maps.Equal(got, old):
		return "old"
	case maps.Equal(got, fresh):
		return "new"
	}
	t.Fatalf(format+" leaves neither tree: %v", append(args, slices.Sorted(maps.Keys(m.Files("."))))...)
	return ""
}

// A process that is killed leaves things that are not on disk yet. The compile after it
// must not build on them: the machine may lose them.
func TestAPowerCutAfterACompileThatWasKilledLeavesTheOldTreeOrTheNew(t *testing.T) {
	gen.Unraced()
	w := newWorld(t)
	for _, w.spares = range []bool{false, true} {
		for _, exchange := range []bool{true, false} {
			for _, left := range crashfs.Afters {
				t.Run(fmt.Sprintf("spares %v, exchange %v, %v", w.spares, exchange, left), func(t *testing.T) {
					w.killThenCrash(t, exchange, left)
				})
			}
		}
	}
}

func (w *world) killThenCrash(t *testing.T, exchange bool, left crashfs.After) {
	first := w.compiled(t, exchange)
	old := first.Files(out)
	m := first.Settle(0)
	require.NoError(t, w.compile(m, w.after, 0))
	fresh, steps := m.Files(out), m.Steps()
	for killed := steps - 6; killed <= steps; killed++ {
		for cut := 1; ; cut++ {
			m := first.Settle(killed)
			require.ErrorIs(t, w.compile(m, w.after, 0), crashfs.ErrCrash)
			m = m.Restart(cut)
			if err := w.compile(m, w.before, 9); err == nil {
				break // it ended before the cut
			}
			after := m.Crash(left)
			require.NoError(t, tree.Recover(after, out))
			got := after.Files(out)
			if maps.Equal(got, old) || maps.Equal(got, fresh) {
				continue
			}
			// Or it is the last one: of everything that it should have.
			held, err := tree.Read(after.Sub(out))
			require.NoError(t, err, "killed before step %d of %d, cut before %d", killed, steps, cut)
			plan, err := tree.NewPlan(w.before, held, w.trust, tree.Versioning{})
			require.NoError(t, err)
			require.True(t, plan.Empty(), "killed before step %d of %d, cut before %d: %v", killed, steps, cut, slices.Sorted(maps.Keys(got)))
		}
	}
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

	// One that is kept is hidden from git, and goes when it is not wanted any more.
	plan.KeepSpareFrom(1)
	require.NoError(t, plan.Write(t.Context(), tree.Disk{}, dir, w.signer, time.Unix(0, 0)))
	text, err := os.ReadFile(path.Join(tree.Next(dir), ".gitignore"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\n*\n")
	plan.KeepSpareFrom(len(w.before) + 1)
	require.NoError(t, plan.Write(t.Context(), tree.Disk{}, dir, w.signer, time.Unix(0, 0)))
	require.NoDirExists(t, tree.Next(dir))

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

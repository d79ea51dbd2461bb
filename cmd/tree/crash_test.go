package tree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/compiler/rete"
	"github.com/edictdev/edict/test/reterepo"
)

const out = "repo/.flor/compiled"

var errCrash = errors.New("crash")

// memory is a file system that counts steps, crashes before one of them, and
// then has only what was synced: what was not is lost, or half there.
type memory struct {
	mu       sync.Mutex
	files    map[string]string // as processes see them
	synced   map[string]string // as a crash leaves them
	steps    int
	crashAt  int  // 0: never
	exchange bool // whether names can be exchanged
	keep     bool // whether names that were not synced survive, without content
}

func (m *memory) step() error {
	m.steps++
	if m.crashAt > 0 && m.steps >= m.crashAt {
		return errCrash
	}
	return nil
}

// crash is the file system after the machine came back.
func (m *memory) crash() *memory {
	after := maps.Clone(m.synced)
	if m.keep {
		// The names got to disk before what they stand for.
		after = map[string]string{}
		for name, content := range m.files {
			if !slices.Contains(slices.Collect(maps.Values(m.synced)), content) {
				content = content[:len(content)/2]
			}
			after[name] = content
		}
	}
	return &memory{files: after, synced: maps.Clone(after), exchange: m.exchange}
}

func under(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func (m *memory) Exists(dir string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.files {
		if under(dir, name) {
			return true, nil
		}
	}
	return false, nil
}

func (m *memory) MkdirAll(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.step()
}

func (m *memory) WriteFile(name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.files[name] = string(content)
	return nil
}

func (m *memory) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.files[to] = m.files[from]
	return nil
}

func (m *memory) SyncAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	for name, content := range m.files {
		if under(dir, name) {
			m.synced[name] = content
		}
	}
	return nil
}

// SyncDir makes the names in a directory durable: what was synced under another
// name is found under its new one.
func (m *memory) SyncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.synced = maps.Clone(m.files)
	return nil
}

func (m *memory) move(pairs ...[2]string) {
	moved := map[string]string{}
	for name, content := range m.files {
		for _, p := range pairs {
			if under(p[0], name) {
				name = p[1] + strings.TrimPrefix(name, p[0])
				break
			}
		}
		moved[name] = content
	}
	m.files = moved
}

func (m *memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.move([2]string{from, to})
	return nil
}

func (m *memory) Exchange(a, b string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.exchange {
		return errors.ErrUnsupported
	}
	if err := m.step(); err != nil {
		return err
	}
	m.move([2]string{a, b}, [2]string{b, a})
	return nil
}

func (m *memory) RemoveAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	maps.DeleteFunc(m.files, func(name, _ string) bool { return under(dir, name) })
	return nil
}

// tree is what stands at out.
func (m *memory) tree() map[string]string {
	at := map[string]string{}
	for name, content := range m.files {
		if below, ok := strings.CutPrefix(name, out+"/"); ok {
			at[below] = content
		}
	}
	return at
}

func (m *memory) fs() fs.FS {
	files := fstest.MapFS{}
	for name, content := range m.tree() {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return files
}

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
func (w *world) compile(m *memory, sets []rete.NodeSet, version uint64) error {
	if err := tree.Recover(m, out); err != nil {
		return err
	}
	held, err := tree.Read(m.fs())
	if err != nil {
		return err
	}
	plan, err := tree.NewPlan(sets, held, w.trust, version)
	if err != nil || plan.Empty() {
		return err
	}
	return plan.Write(context.Background(), m, out, w.signer, time.Unix(1776686400, 0))
}

func TestACrashAtAnyStepOfACompileLeavesTheOldTreeOrTheNew(t *testing.T) {
	w := newWorld(t)
	for _, exchange := range []bool{true, false} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("exchange %v, names outlive content %v", exchange, keep), func(t *testing.T) {
				w.crashEverywhere(t, exchange, keep)
			})
		}
	}
}

func (w *world) crashEverywhere(t *testing.T, exchange, keep bool) {
	begin := func(crashAt int) *memory {
		m := &memory{files: map[string]string{}, synced: map[string]string{}, exchange: exchange}
		require.NoError(t, w.compile(m, w.before, 1))
		m.synced = maps.Clone(m.files)
		m.steps, m.crashAt, m.keep = 0, crashAt, keep
		return m
	}
	m := begin(0)
	old := m.tree()
	require.NoError(t, w.compile(m, w.after, 0))
	fresh, steps := m.tree(), m.steps
	require.NotEqual(t, old, fresh)
	require.Len(t, m.files, len(fresh), "nothing is left beside the tree")

	seen := map[string]int{}
	for step := 1; step <= steps; step++ {
		m := begin(step)
		require.ErrorIs(t, w.compile(m, w.after, 0), errCrash)
		after := m.crash()
		require.NoError(t, tree.Recover(after, out))
		switch got := after.tree(); {
		case maps.Equal(got, old):
			seen["old"]++
		case maps.Equal(got, fresh):
			seen["new"]++
		default:
			t.Fatalf("a crash before step %d of %d leaves neither tree: %v", step, steps, slices.Sorted(maps.Keys(after.files)))
		}
		// And the next compile ends it.
		require.NoError(t, w.compile(after, w.after, 0))
		require.Equal(t, fresh, after.tree())
	}
	t.Logf("%d steps: %v", steps, seen)
	require.Positive(t, seen["old"])
}

func TestOnDiskTheNewTreeReplacesTheOldWhole(t *testing.T) {
	w := newWorld(t)
	dir := path.Join(t.TempDir(), ".flor", "compiled")
	plan, err := tree.NewPlan(w.before, &tree.Tree{}, w.trust, 1)
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
	plan, err = tree.NewPlan(w.after, &tree.Tree{}, w.trust, 2)
	require.NoError(t, err)
	require.ErrorIs(t, plan.Write(ctx, tree.Disk{}, dir, w.signer, time.Unix(0, 0)), context.Canceled)
	held, err := tree.Read(os.DirFS(dir))
	require.NoError(t, err)
	require.EqualValues(t, 1, held.Highest())
}

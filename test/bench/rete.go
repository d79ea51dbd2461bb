package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// The repository that is measured, and how much of it is comment: entries take
// some hundred bytes, and people explain them.
const (
	reteNodes    = 10_000
	reteServices = 2_000
	reteUsers    = 5_000
	reteFiles    = 200
	reteComment  = 1_070
)

func reteSize(e *env) reterepo.Size {
	return reterepo.Size{
		Nodes: e.scale(reteNodes), Services: e.scale(reteServices), Users: e.scale(reteUsers),
		Files: e.scale(reteFiles), Comment: reteComment,
	}
}

// validateRete judges a repository, beside decoding its files with the YAML
// library alone, on all cores too.
func validateRete(_ context.Context, e *env) ([]line, error) {
	var lines []line
	for _, comment := range []int{reteComment, 0} {
		size := reteSize(e)
		size.Comment = comment
		repo := filepath.Join(e.dir, fmt.Sprint("repo-", comment))
		if err := reterepo.Write(reterepo.Large(size), repo); err != nil {
			return nil, err
		}
		var took, floor samples
		var bytes int
		for range e.rounds() {
			d, n, err := decodeAll(repo)
			if err != nil {
				return nil, err
			}
			bytes = n
			floor = append(floor, d.Seconds())
			began := time.Now()
			m, err := judge(os.DirFS(repo))
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(began).Seconds())
			if len(m.Nodes.All) != size.Nodes || len(m.Users.All) != size.Users || len(m.Services.All) != size.Services+2 {
				return nil, errors.New("the judged repository is not the one that was written")
			}
		}
		l := figure(fmt.Sprintf("%.1f MB of YAML", float64(bytes)/1e6), "s", took).
			beside("the YAML library decoding the same files, all cores", floor).ratioAtMost(2)
		lines = append(lines, *l.note("%d nodes, %d services, %d users in %d files; reading, decoding, merging and every rule", size.Nodes, size.Services, size.Users, size.Files))
	}
	return lines, nil
}

// judge is retectl validate.
func judge(repo fs.FS) (*rete.Model, error) {
	names, faults := rete.Discover(repo)
	view, more := rete.Load(repo, names)
	if faults = append(faults, more...); len(faults) > 0 {
		return nil, fmt.Errorf("%v", faults[0])
	}
	m, faults := rete.Validate(view, repo)
	if len(faults) > 0 {
		return nil, fmt.Errorf("%v", faults[0])
	}
	return m, nil
}

// decodeAll reads and decodes every YAML file, and says how many bytes.
func decodeAll(repo string) (time.Duration, int, error) {
	names, err := filepath.Glob(filepath.Join(repo, "*.yaml"))
	if err != nil {
		return 0, 0, err
	}
	sizes := make([]int, len(names))
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sizes[i] = len(text)
			var doc map[string]any
			return yaml.Unmarshal(text, &doc)
		})
	}
	err = g.Wait()
	took, total := time.Since(began), 0
	for _, n := range sizes {
		total += n
	}
	return took, total, err
}

// compileRete compiles a judged repository into an empty tree, beside signing
// as many messages of the same bytes and writing as many files of the same.
func compileRete(ctx context.Context, e *env) ([]line, error) {
	size := reteSize(e)
	repo := reterepo.Large(size)
	m, err := judge(repo)
	if err != nil {
		return nil, err
	}
	key, err := artifact.ParseSigner(reterepo.KeyPEM("primary"))
	if err != nil {
		return nil, err
	}
	w := reteWork{m: m, key: key.As(m.Signers[0].SPIFFE), trust: artifact.NewTrustSet(), dir: e.dir}
	if err := w.trust.Add(artifact.PlaneMgmt, w.key.KeyID(), w.key.PublicKey(), time.Time{}); err != nil {
		return nil, err
	}
	w.trust.Hold(artifact.PlaneMgmt, w.key)
	changed, err := regrouped(repo)
	if err != nil {
		return nil, err
	}
	var took, floor, first, again samples
	for range e.rounds() {
		d, err := w.compile(ctx, size.Nodes)
		if err != nil {
			return nil, err
		}
		took = append(took, d.Seconds())
		if d, err = w.floor(); err != nil {
			return nil, err
		}
		floor = append(floor, d.Seconds())
		if d, err = w.change(ctx, m, changed); err != nil {
			return nil, err
		}
		first = append(first, d.Seconds())
		if d, err = w.change(ctx, changed, m); err != nil {
			return nil, err
		}
		again = append(again, d.Seconds())
	}
	fresh := figure(fmt.Sprintf("%d artifacts, signed and on disk", w.files), "s", took).
		beside("ed25519 over the same bytes and the same files written, synced once, all cores", floor).ratioAtMost(1.5)
	fresh.note("%.0f MB of artifacts; deriving, checking, canonical form, signing, writing, one sync, one exchange", float64(w.bytes)/1e6)
	touched := w.changed > 0 && w.changed == w.touched
	once := figure("over it, one service's group changed", "s", first).
		note("%d of %d nodes get new artifacts; the others' files are verified and kept byte for byte", w.changed, size.Nodes).
		note("the first compile over a tree makes a directory tree of its own; the replaced one is what the next begins with")
	once.target("only the nodes it touches", touched)
	later := figure("again, one service's group changed", "s", again).atMost(1.5).
		note("it begins with the tree before the last; what is not the very file of the tree is replaced")
	later.target("only the nodes it touches", touched)
	return []line{*fresh, *once, *later}, nil
}

type reteWork struct {
	m     *rete.Model
	key   *artifact.Signer
	trust *artifact.TrustSet
	dir   string

	files, bytes, changed, touched int
}

func (w *reteWork) out() string { return filepath.Join(w.dir, "compiled") }

func (w *reteWork) compile(ctx context.Context, nodes int) (time.Duration, error) {
	if err := errors.Join(os.RemoveAll(w.out()), os.RemoveAll(tree.Next(w.out()))); err != nil {
		return 0, err
	}
	began := time.Now()
	sets, faults := rete.Compile(w.m)
	if len(faults) > 0 {
		return 0, fmt.Errorf("%v", faults[0])
	}
	plan, err := tree.NewPlan(sets, &tree.Tree{}, w.trust, tree.Versioning{Asked: 1})
	if err == nil {
		err = plan.Write(ctx, tree.Disk{}, w.out(), w.key, time.Unix(1776686400, 0))
	}
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	n, broken := tree.Verify(os.DirFS(w.out()), w.trust)
	if len(broken) > 0 || n != 2*nodes {
		return 0, fmt.Errorf("%d artifacts of %d, and %v", n, 2*nodes, broken)
	}
	w.files = n
	return took, nil
}

// floor signs and writes what compile just did, from memory.
func (w *reteWork) floor() (time.Duration, error) {
	held, err := tree.Read(os.DirFS(w.out()))
	if err != nil {
		return 0, err
	}
	type message struct {
		path           string
		signed, wanted []byte
	}
	var all []message
	w.bytes = 0
	for _, files := range held.Nodes {
		for _, f := range files {
			signed, err := f.Envelope.SigningBytes()
			if err != nil {
				return 0, err
			}
			all = append(all, message{f.Path, signed, held.Bytes[f.Path]})
			w.bytes += len(held.Bytes[f.Path])
		}
	}
	slices.SortFunc(all, func(a, b message) int { return strings.Compare(a.path, b.path) })
	dir := filepath.Join(w.dir, "floor")
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	runtime.GC()
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	disk := tree.Disk{}
	for part := range slices.Chunk(all, 64) {
		g.Go(func() error {
			for _, m := range part {
				if len(w.key.Sign(m.signed)) == 0 {
					return errors.New("nothing was signed")
				}
				path := filepath.Join(dir, m.path)
				if err := disk.MkdirAll(filepath.Dir(path)); err != nil {
					return err
				}
				if err := disk.WriteFile(path, m.wanted); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = errors.Join(g.Wait(), disk.SyncAll(dir))
	return time.Since(began), err
}

// regrouped is the repository with one service in another group.
func regrouped(repo fstest.MapFS) (*rete.Model, error) {
	changed := fstest.MapFS{}
	edits := 0
	for name, f := range repo {
		text := string(f.Data)
		const entry = "  service-0010:\n"
		if i := strings.Index(text, entry); i >= 0 {
			text = text[:i] + strings.Replace(text[i:], "groups: [group-0001]", "groups: [group-0002]", 1)
			edits++
		}
		changed[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if edits != 1 {
		return nil, fmt.Errorf("%d files were changed, want 1", edits)
	}
	return judge(changed)
}

// change compiles a model over the tree of another. Touched are the nodes whose
// payloads differ, by comparing them all.
func (w *reteWork) change(ctx context.Context, from, to *rete.Model) (time.Duration, error) {
	before, _ := rete.Compile(from)
	began := time.Now()
	sets, faults := rete.Compile(to)
	if len(faults) > 0 {
		return 0, fmt.Errorf("%v", faults[0])
	}
	held, err := tree.Read(os.DirFS(w.out()))
	if err != nil {
		return 0, err
	}
	plan, err := tree.NewPlan(sets, held, w.trust, tree.Versioning{})
	if err == nil {
		err = plan.Write(ctx, tree.Disk{}, w.out(), w.key, time.Unix(1776690000, 0))
	}
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	w.changed, w.touched = len(plan.Changed), 0
	for i := range sets {
		if !slices.EqualFunc(before[i].Artifacts, sets[i].Artifacts, func(a, b rete.Artifact) bool { return string(a.Payload) == string(b.Payload) }) {
			w.touched++
		}
	}
	return took, nil
}

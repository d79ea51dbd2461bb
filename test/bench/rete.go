package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
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
// as many messages of the same bytes and writing as many files of the same. Then
// retectl compiles it as a user does, each time with one service in another group.
func compileRete(ctx context.Context, e *env) ([]line, error) {
	size := reteSize(e)
	w, err := newReteWork(ctx, e, size)
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
		if d, err = w.change(ctx, w.regrouped); err != nil {
			return nil, err
		}
		first = append(first, d.Seconds())
		if d, err = w.change(ctx, w.original); err != nil {
			return nil, err
		}
		again = append(again, d.Seconds())
	}
	fresh := figure(fmt.Sprintf("%d artifacts, signed and on disk", w.files), "s", took).
		beside("ed25519 over the same bytes and the same files written, synced once, all cores", floor).ratioAtMost(1.5)
	fresh.note("%.0f MB of artifacts; deriving, checking, canonical form, signing, writing, one sync, one exchange", float64(w.bytes)/1e6)
	touched := w.changed > 0 && w.changed == w.touched
	once := figure("retectl compile over it, one service's group changed", "s", first).
		note("%d of %d nodes get new artifacts; the others' files are verified and kept byte for byte", w.changed, size.Nodes).
		note("the whole command: every file is read and judged, and the tree is read").
		note("the first compile over a tree makes a directory tree of its own; the replaced one is what the next begins with")
	once.target("only the nodes it touches", touched)
	later := figure("retectl compile again, one service's group changed", "s", again).atMost(1.5).
		note("it begins with the tree before the last; what is not the very file of the tree is replaced")
	later.target("only the nodes it touches", touched)
	return []line{*fresh, *once, *later}, nil
}

// newReteWork writes the repository, and builds retectl.
func newReteWork(ctx context.Context, e *env, size reterepo.Size) (*reteWork, error) {
	repo := reterepo.Large(size)
	m, err := judge(repo)
	if err != nil {
		return nil, err
	}
	key, err := artifact.ParseSigner(reterepo.KeyPEM("primary"))
	if err != nil {
		return nil, err
	}
	w := &reteWork{m: m, key: key.As(m.Signers[0].SPIFFE), trust: artifact.NewTrustSet(), dir: e.dir}
	if err := w.trust.Add(artifact.PlaneMgmt, w.key.KeyID(), w.key.PublicKey(), time.Time{}); err != nil {
		return nil, err
	}
	w.trust.Hold(artifact.PlaneMgmt, w.key)
	if w.file, w.regrouped, err = regrouped(repo); err != nil {
		return nil, err
	}
	w.original = repo[w.file].Data
	if w.touched, err = touched(m, repo, w.file, w.regrouped); err != nil {
		return nil, err
	}
	if err := errors.Join(reterepo.Write(repo, w.repo()), os.WriteFile(w.keyFile(), reterepo.KeyPEM("primary"), 0o600)); err != nil {
		return nil, err
	}
	w.retectl, err = e.built(ctx, "retectl")
	return w, err
}

type reteWork struct {
	m     *rete.Model
	key   *artifact.Signer
	trust *artifact.TrustSet
	dir   string

	retectl             string // the binary
	file                string // the one of the repository that changes
	original, regrouped []byte // what is in it

	files, bytes, changed, touched int
}

func (w *reteWork) repo() string    { return filepath.Join(w.dir, "repo") }
func (w *reteWork) keyFile() string { return filepath.Join(w.dir, "primary.key") }
func (w *reteWork) out() string     { return filepath.Join(w.repo(), ".flor", "compiled") }

func (w *reteWork) compile(ctx context.Context, nodes int) (time.Duration, error) {
	if err := errors.Join(os.RemoveAll(w.out()), os.RemoveAll(tree.Next(w.out())), os.MkdirAll(filepath.Dir(w.out()), 0o755)); err != nil {
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

// regrouped is the file of a repository that changes, with one service in another group.
func regrouped(repo fstest.MapFS) (file string, text []byte, err error) {
	edits := 0
	for name, f := range repo {
		was := string(f.Data)
		const entry = "  service-0010:\n"
		if i := strings.Index(was, entry); i >= 0 {
			file, text = name, []byte(was[:i]+strings.Replace(was[i:], "groups: [group-0001]", "groups: [group-0002]", 1))
			edits++
		}
	}
	if edits != 1 {
		return "", nil, fmt.Errorf("%d files were changed, want 1", edits)
	}
	return file, text, nil
}

// touched counts the nodes whose payloads differ when a file of the repository is
// another, by comparing them all.
func touched(m *rete.Model, repo fstest.MapFS, file string, text []byte) (int, error) {
	changed := maps.Clone(repo)
	changed[file] = &fstest.MapFile{Data: text}
	to, err := judge(changed)
	if err != nil {
		return 0, err
	}
	before, _ := rete.Compile(m)
	after, _ := rete.Compile(to)
	count := 0
	for i := range after {
		if !slices.EqualFunc(before[i].Artifacts, after[i].Artifacts, func(a, b rete.Artifact) bool { return string(a.Payload) == string(b.Payload) }) {
			count++
		}
	}
	return count, nil
}

// change has retectl compile the repository with another text of its file.
func (w *reteWork) change(ctx context.Context, text []byte) (time.Duration, error) {
	if err := os.WriteFile(filepath.Join(w.repo(), w.file), text, 0o644); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, w.retectl, "compile", "--repo", w.repo(), "--signing-key", w.keyFile(), "--generated-at", "2026-04-20T13:00:00Z")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("retectl compile: %w\n%s", err, out)
	}
	_, said, _ := strings.Cut(string(out), w.out()+": ")
	if _, err := fmt.Sscanf(said, "%d nodes changed", &w.changed); err != nil {
		return 0, fmt.Errorf("retectl compile says %q: %w", out, err)
	}
	return took, nil
}

package agent

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// statusFile says what is in force, for people and monitors. Nothing is decided
// by it.
const statusFile = "status.json"

// NoStatus takes away what an agent that enforced said last of an install root: one that does
// not enforce keeps the root now, and nobody sees to whether it is still so.
func NoStatus(files FS, dir string) error {
	r := root{files, dir}
	return r.putBack(statusFile, nil)
}

// mgmtDir holds a node's set in its install root, and nothing else.
const mgmtDir = "mgmt"

// root is an install root as the specification lays it out.
type root struct {
	fs  FS
	dir string
}

// documents are the installed set, as it stands.
func (r root) documents() ([]artifact.Document, error) { return r.read(r.path(mgmtDir)) }

// read reads a set as it stands at a place. A file that belongs to no set is part
// of what is returned, so that nobody takes the whole for one.
func (r root) read(dir string) (docs []artifact.Document, err error) {
	if there, err := r.fs.Exists(dir); err != nil || !there {
		return nil, err
	}
	sub := r.fs.Sub(dir)
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			docs = append(docs, artifact.Document{Part: artifact.Part{Name: name}})
			return nil
		}
		text, err := fs.ReadFile(sub, name)
		docs = append(docs, artifact.Document{Part: partAt(name), Text: text})
		return err
	})
	return docs, err
}

// partAt is the artifact that belongs at a path below mgmt; of no kind where none
// does.
func partAt(name string) artifact.Part {
	p := artifact.Part{Kind: rete.ArtifactAgent, Name: rete.ArtifactAgent}
	if vertex, ok := strings.CutSuffix(path.Base(name), ".json"); ok && strings.Contains(name, "/") {
		p = artifact.Part{Kind: rete.ArtifactVertex, Name: vertex}
	}
	if rete.ArtifactPath(p.Kind, p.Name) != path.Join(mgmtDir, name) {
		return artifact.Part{Name: name}
	}
	return p
}

// install puts a set in the place of the installed one, and keeps the store that
// accepted it. The store is the point of no return: before it is on disk the new
// set only lies beside the old one, and once it is, recover ends what is left to
// do. So nothing is used that was not written down as accepted, and what was
// written down as accepted is there.
func (r root) install(docs []artifact.Document, accepted *artifact.Store) error {
	out := r.path(mgmtDir)
	if err := tree.Clear(r.fs, out); err != nil {
		return err
	}
	if err := r.stage(tree.Next(out), docs); err != nil {
		return err
	}
	if err := accepted.Keep(r.fs, r.path(tree.AcceptedFile)); err != nil {
		return err
	}
	return tree.Swap(r.fs, out)
}

// stage writes a set beside the installed one. It is on disk when it returns.
func (r root) stage(next string, docs []artifact.Document) error {
	dirs := []string{next}
	for _, d := range docs {
		below, _ := strings.CutPrefix(rete.ArtifactPath(d.Kind, d.Name), mgmtDir+"/")
		if partAt(below) != d.Part {
			return fmt.Errorf("%v has no place in an install root", d.Part) // its name is a path
		}
		name := filepath.Join(next, filepath.FromSlash(below))
		dir := filepath.Dir(name)
		if err := r.fs.MkdirAll(dir); err != nil {
			return err
		}
		if err := r.fs.WriteFile(name, d.Text); err != nil {
			return err
		}
		if err := r.fs.SyncDir(name); err != nil {
			return err
		}
		if dir != next && len(dirs) == 1 {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range append(dirs, r.dir) {
		if err := r.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// recover ends an install that a crash interrupted, if one was: done. Nothing
// accepted yet, or an installed set that is the accepted one, needs nothing but
// what lies beside it cleared away.
func (r root) recover(accepted string) (done bool, err error) {
	out := r.path(mgmtDir)
	if err := tree.Recover(r.fs, out); err != nil {
		return false, err
	}
	if accepted != "" {
		installed, err := r.read(out)
		if err != nil {
			return false, err
		}
		next, err := r.read(tree.Next(out))
		if err != nil {
			return false, err
		}
		if artifact.Fingerprint(installed) != accepted && artifact.Fingerprint(next) == accepted {
			return true, tree.Swap(r.fs, out)
		}
	}
	return false, tree.Clear(r.fs, out)
}

// sweep clears away what a crash left half written of files.
func (r root) sweep(names ...string) error {
	for _, name := range names {
		if err := r.fs.RemoveAll(artifact.Next(r.path(name))); err != nil {
			return err
		}
	}
	return nil
}

// putBack has a file hold what it held before; nil: there was none.
func (r root) putBack(name string, was []byte) error {
	if was == nil {
		return r.fs.RemoveAll(r.path(name))
	}
	return artifact.ReplaceFile(r.fs, r.path(name), was)
}

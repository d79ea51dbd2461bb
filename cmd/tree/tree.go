package tree

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler/rete"
)

// Tree is a compiled tree as it was read: what stands there, not what is true.
type Tree struct {
	Nodes map[string][]File // by node; files by path
	Bytes map[string][]byte // content by path
}

// File is one artifact of a tree.
type File struct {
	Path     string // from the root of the tree
	Envelope artifact.Envelope
}

// maxArtifact is the most bytes of one file.
const maxArtifact = 64 << 20

// ForeignError is something in a tree that compile did not write. A tree is
// replaced as a whole, so nothing foreign may be in it.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string {
	return e.Path + " is no compiled artifact; the output is replaced as a whole, so name a directory of its own with --out, or remove the file"
}

// UnreadableError is an artifact of a tree that cannot be read: its version is
// not known, so the next one is not known either.
type UnreadableError struct {
	Path string
	Err  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s: %v; restore it from the repository's history, so that versions go on from it", e.Path, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Read reads a compiled tree. Every file must be an artifact that stands where
// its identity belongs; signatures are not judged. The errors are ForeignError
// and UnreadableError.
func Read(fsys fs.FS) (*Tree, error) {
	t := &Tree{Nodes: map[string][]File{}, Bytes: map[string][]byte{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return &UnreadableError{name, err}
		}
		if d.IsDir() {
			return nil
		}
		node, below, _ := strings.Cut(name, "/")
		if !d.Type().IsRegular() || !artifactPath(below) {
			return &ForeignError{name}
		}
		return t.add(fsys, name, node, below)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func artifactPath(below string) bool {
	name, vertex := strings.CutPrefix(below, "mgmt/vertices/")
	return below == rete.ArtifactPath(rete.ArtifactAgent, "") ||
		vertex && !strings.Contains(name, "/") && path.Ext(name) == ".json"
}

func (t *Tree) add(fsys fs.FS, name, node, below string) error {
	info, err := fs.Stat(fsys, name)
	if err == nil && info.Size() > maxArtifact {
		err = fmt.Errorf("larger than %d bytes", maxArtifact)
	}
	var text []byte
	if err == nil {
		text, err = fs.ReadFile(fsys, name)
	}
	var e artifact.Envelope
	if err == nil {
		e, err = artifact.Parse(text)
	}
	if err == nil && (e.Node != node || e.Plane != artifact.PlaneMgmt || rete.ArtifactPath(e.Kind, e.Name) != below) {
		err = fmt.Errorf("it says it is %v, which belongs elsewhere", e.Identity())
	}
	if err != nil {
		return &UnreadableError{name, err}
	}
	t.Nodes[node] = append(t.Nodes[node], File{name, e})
	t.Bytes[name] = text
	return nil
}

// Highest is the highest version in the tree; 0: it is empty.
func (t *Tree) Highest() uint64 {
	var highest uint64
	for _, files := range t.Nodes {
		for _, f := range files {
			highest = max(highest, f.Envelope.Version)
		}
	}
	return highest
}

// names are the nodes of the tree, sorted.
func (t *Tree) names() []string {
	var all []string
	for name := range t.Nodes {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

package tree

import (
	"fmt"
	"io/fs"
	"iter"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
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
	t := newTree()
	var names []string
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return &UnreadableError{name, err}
		case d.IsDir():
			return nil
		case !d.Type().IsRegular() || !artifactPath(name):
			return &ForeignError{name}
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, err := range t.addAll(fsys, names) {
		return nil, &UnreadableError{name, err}
	}
	return t, nil
}

func newTree() *Tree { return &Tree{Nodes: map[string][]File{}, Bytes: map[string][]byte{}} }

// artifactPath says whether an artifact may have that path in a tree.
func artifactPath(path string) bool {
	_, below, _ := strings.Cut(path, "/")
	name, vertex := strings.CutPrefix(below, "mgmt/vertices/")
	return below == rete.ArtifactPath(rete.ArtifactAgent, "") ||
		vertex && !strings.Contains(name, "/") && strings.HasSuffix(name, ".json")
}

// addAll reads the named artifacts, several at once, and yields those that
// cannot be read, in their order.
func (t *Tree) addAll(fsys fs.FS, names []string) iter.Seq2[string, error] {
	type result struct {
		file    File
		content []byte
		err     error
	}
	results := make([]result, len(names))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			r := &results[i]
			r.file, r.content, r.err = read(fsys, name)
			return nil
		})
	}
	_ = g.Wait() // none of them fails
	return func(yield func(string, error) bool) {
		for i, r := range results {
			if r.err != nil {
				if !yield(names[i], r.err) {
					return
				}
				continue
			}
			node := r.file.Envelope.Node
			t.Nodes[node] = append(t.Nodes[node], r.file)
			t.Bytes[names[i]] = r.content
		}
	}
}

// read reads one artifact, which must say it is what its path says.
func read(fsys fs.FS, name string) (File, []byte, error) {
	info, err := fs.Stat(fsys, name)
	if err == nil && info.Size() > maxArtifact {
		err = fmt.Errorf("larger than %d bytes", maxArtifact)
	}
	if err != nil {
		return File{}, nil, err
	}
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return File{}, nil, err
	}
	e, err := artifact.Parse(text)
	if err == nil && (e.Plane != artifact.PlaneMgmt || e.Node+"/"+rete.ArtifactPath(e.Kind, e.Name) != name) {
		err = fmt.Errorf("it says it is %v, which belongs elsewhere", e.Identity())
	}
	return File{name, e}, text, err
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

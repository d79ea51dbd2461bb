package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Tree is a compiled tree as it was read: what stands there, not what is true.
type Tree struct {
	Nodes map[string][]File // by node; files by path
	Bytes map[string][]byte // content by path

	signers func() []rete.AuthorizedSigner // once
}

// File is one artifact of a tree.
type File struct {
	Path     string // from the root of the tree
	Envelope artifact.Envelope
	verdict  *verdict
}

// verdict is what was found when the file was verified last.
type verdict struct {
	trust *artifact.TrustSet
	err   error
}

// verify is TrustSet.Verify, once for each file: a compile asks more than once. A
// file is verified by one goroutine at a time.
func (f File) verify(trust *artifact.TrustSet) error {
	v := f.verdict
	if v.trust != trust {
		v.trust = trust
		_, v.err = trust.Verify(f.Envelope)
	}
	return v.err
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
	for f := range t.readAll(fsys) {
		if errors.Is(f.Err, errForeign) {
			return nil, &ForeignError{f.Path}
		}
		return nil, &UnreadableError{f.Path, f.Err}
	}
	return t, nil
}

func newTree() *Tree {
	t := &Tree{Nodes: map[string][]File{}, Bytes: map[string][]byte{}}
	t.signers = sync.OnceValue(t.authorized)
	return t
}

// artifactPath says whether an artifact may have that name in a tree.
func artifactPath(name string) bool {
	_, below, _ := strings.Cut(name, "/")
	file, vertex := strings.CutPrefix(below, "mgmt/vertices/")
	return below == rete.ArtifactPath(rete.ArtifactAgent, "") ||
		vertex && !strings.Contains(file, "/") && strings.HasSuffix(file, ".json")
}

var errForeign = errors.New("no artifact belongs here")

// entry is what is directly in a tree: one node's files, if it is right.
type entry struct {
	foreign []Fault // what could not be listed, and what does not belong there
	files   []File
	content [][]byte
	broken  []Fault // files that cannot be read
}

// readAll reads every artifact, several nodes at once, and yields in the order of
// paths what does not belong there, and then what cannot be read.
func (t *Tree) readAll(fsys fs.FS) iter.Seq[Fault] {
	root, err := fs.ReadDir(fsys, ".")
	entries := make([]entry, len(root))
	each(len(root), func(i int) { entries[i].read(fsys, root[i].Name(), root[i]) })
	for _, e := range entries {
		for i, f := range e.files {
			t.Nodes[f.Envelope.Node] = append(t.Nodes[f.Envelope.Node], f)
			t.Bytes[f.Path] = e.content[i]
		}
	}
	return func(yield func(Fault) bool) {
		if err != nil && !yield(Fault{".", err}) {
			return
		}
		for _, of := range []func(entry) []Fault{func(e entry) []Fault { return e.foreign }, func(e entry) []Fault { return e.broken }} {
			for _, e := range entries {
				for _, f := range of(e) {
					if !yield(f) {
						return
					}
				}
			}
		}
	}
}

// read reads what has that name, and everything below it.
func (e *entry) read(fsys fs.FS, name string, d fs.DirEntry) {
	switch {
	case d.IsDir():
		below, err := fs.ReadDir(fsys, name)
		if err != nil {
			e.foreign = append(e.foreign, Fault{name, err})
		}
		for _, d := range below {
			e.read(fsys, path.Join(name, d.Name()), d)
		}
	case !d.Type().IsRegular() || !artifactPath(name):
		e.foreign = append(e.foreign, Fault{name, errForeign})
	default:
		f, content, err := read(fsys, name)
		if err != nil {
			e.broken = append(e.broken, Fault{name, err})
			return
		}
		e.files, e.content = append(e.files, f), append(e.content, content)
	}
}

// read reads one artifact, which must say it is what its path says.
func read(fsys fs.FS, name string) (File, []byte, error) {
	text, err := readFile(fsys, name)
	if err != nil {
		return File{}, nil, err
	}
	e, err := artifact.Parse(text)
	if err == nil && (e.Plane != artifact.PlaneMgmt || e.Node+"/"+rete.ArtifactPath(e.Kind, e.Name) != name) {
		err = fmt.Errorf("it says it is %v, which belongs elsewhere", e.Identity())
	}
	return File{name, e, new(verdict)}, text, err
}

// readFile is fs.ReadFile for a file that is not too large.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if info.Size() <= maxArtifact {
		b.Grow(int(info.Size()) + bytes.MinRead)
		_, err = b.ReadFrom(io.LimitReader(f, maxArtifact+1))
	}
	if max(info.Size(), int64(b.Len())) > maxArtifact {
		err = fmt.Errorf("larger than %d bytes", maxArtifact)
	}
	return b.Bytes(), err
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

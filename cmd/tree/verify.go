package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Fault is one thing wrong with a tree.
type Fault struct {
	Path string
	Err  error
}

// Verify checks a tree offline, and says how many artifacts it has: each must
// be signed by a trusted signer, stand where its identity belongs and be sound
// in itself; those of a node must be one set of one version. Nothing stops at
// the first fault.
func Verify(fsys fs.FS, trust *artifact.TrustSet) (artifacts int, faults []Fault) {
	v := verifier{tree: newTree(), trust: trust}
	for f := range v.tree.readAll(fsys) {
		v.fault(f.Path, f.Err)
	}
	if len(v.tree.Nodes) == 0 && len(v.faults) == 0 {
		v.fault(".", errors.New("there is no artifact"))
	}
	for _, node := range v.tree.names() {
		v.node(node, v.tree.Nodes[node])
	}
	return len(v.tree.Bytes), v.faults
}

type verifier struct {
	tree   *Tree
	trust  *artifact.TrustSet
	faults []Fault
}

func (v *verifier) fault(path string, err error) { v.faults = append(v.faults, Fault{path, err}) }

// node checks the set of one node.
func (v *verifier) node(node string, files []File) {
	docs := make([]artifact.Document, len(files))
	for i, f := range files {
		docs[i] = artifact.Document{Part: artifact.Part{Kind: f.Envelope.Kind, Name: f.Envelope.Name}, Text: v.tree.Bytes[f.Path]}
	}
	_, faults := Format.Check(v.trust, node, docs)
	for _, f := range faults {
		v.fault(path.Join(node, rete.ArtifactPath(f.Part.Kind, f.Part.Name)), f.Err)
	}
}

// Format is what the payloads of a node's set mean: agent.json says whom to trust
// and which vertices there are.
var Format = artifact.Format{
	Lead: artifact.Part{Kind: rete.ArtifactAgent, Name: rete.ArtifactAgent},
	Read: readPayload,
}

func readPayload(e artifact.Envelope) (c artifact.Contents, faults []error) {
	switch e.Kind {
	case rete.ArtifactVertex:
		return c, rete.CheckVertex(e.Payload)
	case rete.ArtifactAgent:
	default:
		return c, []error{fmt.Errorf("its kind is %.40q; a set has %s and %s", e.Kind, rete.ArtifactAgent, rete.ArtifactVertex)}
	}
	p, faults := rete.CheckAgent(e.Payload)
	for _, s := range p.Trust.Signers {
		c.Signers = append(c.Signers, artifact.PinSigner(s))
	}
	for _, v := range p.Vertices {
		c.Members = append(c.Members, artifact.Part{Kind: rete.ArtifactVertex, Name: v.Name})
	}
	return c, faults
}

// Files of an install root, beside keys and certificates.
const (
	PinFile      = "trust.json"    // the trust pin, from the bundle
	AcceptedFile = "accepted.json" // what the node accepted since (artifact.Store)
)

// installRoot shows the mgmt directory of an install root as that of one node
// in a tree.
type installRoot struct {
	root fs.FS
	node string
}

// InstallRoot is the install root of one node, seen as a tree that holds only
// that node. What lies beside mgmt in it is not seen. Without a name, the node
// is whose agent.json it is.
func InstallRoot(root fs.FS, node string) fs.FS {
	if node == "" {
		if text, err := rete.ReadFile(root, rete.ArtifactPath(rete.ArtifactAgent, ""), maxArtifact); err == nil {
			e, _ := artifact.Parse(text) // a broken one shows when it is verified
			node = e.Node
		}
	}
	if node == "" {
		node = "node"
	}
	return installRoot{root, node}
}

func (r installRoot) Open(name string) (fs.File, error) {
	rest, below := strings.CutPrefix(name, r.node+"/")
	switch {
	case name == "." || name == r.node:
		return r.root.Open(".")
	case below:
		return r.root.Open(rest)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir shows the one node, and in it only mgmt.
func (r installRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	switch name {
	case ".":
		info, err := fs.Stat(r.root, ".")
		if err != nil {
			return nil, err
		}
		return []fs.DirEntry{renamed{fs.FileInfoToDirEntry(info), r.node}}, nil
	case r.node:
		info, err := fs.Stat(r.root, "mgmt")
		if err != nil {
			return nil, err
		}
		return []fs.DirEntry{fs.FileInfoToDirEntry(info)}, nil
	}
	return fs.ReadDir(r.root, strings.TrimPrefix(name, r.node+"/"))
}

type renamed struct {
	fs.DirEntry
	name string
}

func (r renamed) Name() string { return r.name }

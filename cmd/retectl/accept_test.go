package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// accepts is "accepts ROOT TREE": the node of an install root takes its set from
// a compiled tree, and keeps what it accepted, as its agent does. With "!" it
// must refuse.
func accepts(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: accepts ROOT TREE")
	}
	root, disk := ts.MkAbs(args[0]), tree.Disk{}
	text, err := os.ReadFile(filepath.Join(root, tree.PinFile))
	ts.Check(err)
	pin, err := artifact.ParsePin(text)
	ts.Check(err)
	from := filepath.Join(ts.MkAbs(args[1]), pin.Node)
	held, err := tree.Read(tree.InstallRoot(os.DirFS(from), pin.Node))
	ts.Check(err)
	var docs []artifact.Document
	for _, f := range held.Nodes[pin.Node] {
		docs = append(docs, artifact.Document{Part: artifact.Part{Kind: f.Envelope.Kind, Name: f.Envelope.Name}, Text: held.Bytes[f.Path]})
	}
	path := filepath.Join(root, tree.AcceptedFile)
	store, err := artifact.OpenStore(disk, path, pin)
	ts.Check(err)
	store, err = store.Accept(tree.Format, docs)
	if neg != (err != nil) {
		ts.Fatalf("refused: %v", err)
	}
	if err != nil {
		ts.Logf("refused: %v", err)
		return
	}
	ts.Check(store.Keep(disk, path))
	ts.Check(os.RemoveAll(filepath.Join(root, "mgmt")))
	for _, d := range docs {
		to := filepath.Join(root, rete.ArtifactPath(d.Kind, d.Name))
		ts.Check(os.MkdirAll(filepath.Dir(to), 0o755))
		ts.Check(os.WriteFile(to, d.Text, 0o644))
	}
}

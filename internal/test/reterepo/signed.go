package reterepo

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// File is one artifact of a compiled tree.
type File struct {
	Kind, Name string
	Path       string // from the root of the tree
	Text       []byte
}

// Signed compiles a repository and signs every artifact with the key of a
// signer, at one version: files by node, in the order of the set.
func Signed(repo fs.FS, signer string, version uint64) map[string][]File {
	names, _ := rete.Discover(repo)
	view, faults := rete.Load(repo, names)
	if len(faults) > 0 {
		panic(fmt.Sprintf("reterepo: %v", faults))
	}
	m, faults := rete.Validate(view, repo)
	if len(faults) > 0 {
		panic(fmt.Sprintf("reterepo: %v", faults))
	}
	sets, faults := rete.Compile(m)
	if len(faults) > 0 {
		panic(fmt.Sprintf("reterepo: %v", faults))
	}
	s, err := artifact.ParseSigner(KeyPEM(signer))
	must(err)
	s = s.As(SignerID(string(view.Rete.Value.Name), signer))
	out := map[string][]File{}
	for _, set := range sets {
		for _, a := range set.Artifacts {
			text, err := s.SealDocument(artifact.Envelope{
				Plane: artifact.PlaneMgmt, Kind: a.Kind, Version: version, Node: set.Node, Name: a.Name,
				GeneratedAt: time.Date(2026, 4, 20, 12, 0, 0, 0, time.UTC), Payload: a.Payload,
			})
			must(err)
			out[set.Node] = append(out[set.Node], File{a.Kind, a.Name, set.Node + "/" + a.Path(), text})
		}
	}
	return out
}

// SignerID is the SPIFFE ID of a signer.
func SignerID(reteName, signer string) string {
	return rete.SPIFFE(reteName, rete.PrincipalMgmt, signer)
}

// WriteTree puts a compiled tree on disk.
func WriteTree(nodes map[string][]File, dir string) error {
	for _, files := range nodes {
		for _, f := range files {
			path := filepath.Join(dir, filepath.FromSlash(f.Path))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, f.Text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

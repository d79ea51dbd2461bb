package tree

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Plan is what a compilation does to a tree.
type Plan struct {
	Version   uint64    // of the nodes that change
	Changed   []string  // nodes with new artifacts, sorted
	Unchanged []string  // nodes whose files stay as they are, byte for byte
	Removed   []string  // nodes that are no more
	sets      []planned // every node of the new tree
	held      *Tree     // the old one
	spareFrom int       // of how many nodes on the old tree is kept on disk
}

type planned struct {
	rete.NodeSet
	keep bool
}

// VersionError is a version that cannot be given.
type VersionError struct{ text string }

func (e *VersionError) Error() string { return e.text }

// Versioning is how the nodes that change are numbered.
type Versioning struct {
	Asked uint64 // the version; 0: 1 + the highest of the tree
	Renew bool   // nodes whose artifacts say what they said get it, too
}

// NewPlan compares what was compiled with the tree that is there. A node whose
// artifacts say what they said, under signatures that hold, keeps them unless all
// are renewed; the others get one new version. With an empty tree there is nothing to
// count from, so a version must be asked for. It must be above the highest in the
// tree. The error is a VersionError.
func NewPlan(sets []rete.NodeSet, held *Tree, trust *artifact.TrustSet, v Versioning) (*Plan, error) {
	p := &Plan{held: held, sets: make([]planned, len(sets)), spareFrom: spareFrom}
	each(len(sets), func(i int) {
		p.sets[i] = planned{NodeSet: sets[i], keep: !v.Renew && held.same(sets[i], trust)}
	})
	present := map[string]bool{}
	for _, s := range p.sets {
		present[s.Node] = true
		if s.keep {
			p.Unchanged = append(p.Unchanged, s.Node)
		} else {
			p.Changed = append(p.Changed, s.Node)
		}
	}
	p.Removed = slices.DeleteFunc(held.names(), func(n string) bool { return present[n] })
	return p, p.number(v.Asked)
}

func (p *Plan) number(asked uint64) error {
	highest := p.held.Highest()
	switch {
	case p.Empty():
		return nil // nothing gets a version
	case asked > artifact.MaxInteger:
		return &VersionError{fmt.Sprintf("version %d is above %d, the largest that every reader of JSON agrees on", asked, uint64(artifact.MaxInteger))}
	case asked > 0 && asked <= highest:
		return &VersionError{fmt.Sprintf("version %d is not above %d, the highest of the tree; nodes refuse to go back, so leave --version out or raise it", asked, highest)}
	case asked == 0 && highest == 0:
		return &VersionError{"the output is empty, so the next version is not known; give --version 1 for a new rete, or one above the last that was released"}
	case highest >= artifact.MaxInteger:
		return &VersionError{fmt.Sprintf("the tree is at version %d, and there is none above", highest)}
	}
	p.Version = max(asked, highest+1)
	return nil
}

// same says whether the node's artifacts in the tree are those of the set.
func (t *Tree) same(s rete.NodeSet, trust *artifact.TrustSet) bool {
	files := t.Nodes[s.Node]
	if len(files) == 0 || len(files) != len(s.Artifacts) {
		return false
	}
	for _, a := range s.Artifacts {
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == s.Node+"/"+a.Path() })
		if i < 0 || files[i].Envelope.Version != files[0].Envelope.Version {
			return false // a set has one version
		}
		held := files[i].Envelope
		if err := files[i].verify(trust); err != nil || !samePayload(held.Payload, a.Payload) && !sameSigned(held.Payload, a.Payload) {
			return false
		}
	}
	return true
}

// samePayload says whether two payloads are one text but for white space in the
// first. It spares bringing the second into canonical form.
func samePayload(held, now []byte) bool {
	inString := false
	for i := 0; i < len(held); i++ {
		switch c := held[i]; {
		case !inString && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			continue
		case c == '"':
			inString = !inString
		case c == '\\': // what follows is in the string, a quote too
			if i++; i == len(held) || len(now) < 2 || now[0] != c {
				return false
			}
			now = now[1:]
		}
		if len(now) == 0 || now[0] != held[i] {
			return false
		}
		now = now[1:]
	}
	return len(now) == 0
}

// sameSigned says whether two payloads are one to who signs them.
func sameSigned(held, now []byte) bool {
	a, err1 := artifact.Canonical(held)
	b, err2 := artifact.Canonical(now)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}

// Empty says whether the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.Changed)+len(p.Removed) == 0 }

// files yields every file of one node of the new tree, signing what changed.
func (p *Plan) files(s planned, signer *artifact.Signer, at time.Time, yield func(path string, content []byte) error) error {
	for _, a := range s.Artifacts {
		path := s.Node + "/" + a.Path()
		content := p.held.Bytes[path]
		if !s.keep {
			var err error
			content, err = signer.SealDocument(artifact.Envelope{
				Plane: artifact.PlaneMgmt, Kind: a.Kind, Version: p.Version, Node: s.Node, Name: a.Name,
				GeneratedAt: at, Payload: a.Payload,
			})
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if err := yield(path, content); err != nil {
			return err
		}
	}
	return nil
}

package tree

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Signers are those whom the nodes of the tree trust: whom every agent's artifact of
// the highest version authorizes. One that is not signed by a signer that it lists
// itself, as every compile signs, is not believed. There are none in an empty tree.
func (t *Tree) Signers() []rete.AuthorizedSigner {
	if t.signers == nil {
		return nil
	}
	return t.signers()
}

func (t *Tree) authorized() []rete.AuthorizedSigner {
	byVersion := map[uint64][]File{}
	for _, node := range t.names() {
		for _, f := range t.Nodes[node] {
			if f.Envelope.Kind == rete.ArtifactAgent {
				byVersion[f.Envelope.Version] = append(byVersion[f.Envelope.Version], f)
			}
		}
	}
	versions := slices.Sorted(maps.Keys(byVersion))
	for _, v := range slices.Backward(versions) {
		if all, found := authorizedByAll(byVersion[v]); found {
			return all
		}
	}
	return nil
}

// authorizedByAll are those whom all of the agents' artifacts authorize. One that is
// not signed by a signer whom it lists does not count; found says whether any counts.
func authorizedByAll(agents []File) (all []rete.AuthorizedSigner, found bool) {
	listed := make([][]rete.AuthorizedSigner, len(agents))
	believed := make([]bool, len(agents))
	each(len(agents), func(i int) {
		p, _ := rete.CheckAgent(agents[i].Envelope.Payload)
		_, err := trustOf(p.Trust.Signers).Verify(agents[i].Envelope)
		listed[i], believed[i] = p.Trust.Signers, err == nil
	})
	for i, signers := range listed {
		switch {
		case !believed[i]:
		case !found:
			all, found = signers, true
		default:
			all = slices.DeleteFunc(all, func(s rete.AuthorizedSigner) bool { return !lists(signers, s.SPIFFE, s.Key) })
		}
	}
	return all, found
}

// trustOf trusts signers, but for those whose key is none.
func trustOf(signers []rete.AuthorizedSigner) *artifact.TrustSet {
	t := artifact.NewTrustSet()
	for _, s := range signers {
		_ = t.Add(artifact.PlaneMgmt, s.SPIFFE, s.Key, time.Time{})
	}
	return t
}

// Introduces says whether nodes that hold the tree would meet a signer for the first
// time in what that signer signs, and whom they trust instead. A tree that is empty,
// or that nobody signed, does not say.
func (t *Tree) Introduces(signer *artifact.Signer) (trusted []rete.AuthorizedSigner, introduces bool) {
	trusted = t.Signers()
	return trusted, len(trusted) > 0 && !lists(trusted, signer.KeyID(), signer.PublicKey())
}

func lists(signers []rete.AuthorizedSigner, spiffe string, key []byte) bool {
	return slices.ContainsFunc(signers, func(s rete.AuthorizedSigner) bool { return s.SPIFFE == spiffe && bytes.Equal(s.Key, key) })
}

// Listeners are those that the artifacts of the tree give to users and nodes. What
// is signed neither by a signer of trust nor by one of the tree is not believed.
func (t *Tree) Listeners(trust *artifact.TrustSet) rete.Listeners {
	own := trustOf(t.Signers())
	signed := func(f File) bool {
		if f.verify(trust) == nil {
			return true
		}
		_, err := own.Verify(f.Envelope)
		return err == nil
	}
	names := t.names()
	found := make([][]rete.Listener, len(names))
	each(len(names), func(i int) {
		for _, f := range t.Nodes[names[i]] {
			if f.Envelope.Kind == rete.ArtifactVertex && signed(f) {
				found[i] = append(found[i], rete.ListenersOf(f.Envelope.Name, f.Envelope.Payload)...)
			}
		}
	})
	all := rete.Listeners{}
	for i, node := range names {
		all[node] = found[i]
	}
	return all
}

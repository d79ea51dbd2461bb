package snapshot

import (
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Plain reports whether only plain policies match a node, or none, but for those in
// audit mode. It makes no table.
func (t *Tables) Plain(id policy.NodeID) (plain bool, err error) {
	extended, err := matches(t, id, func(r policy.Revision) bool { return !r.Order.Audit && r.Content().Extended() })
	return !extended, err
}

// Audited reports whether a policy in audit mode matches a node. It makes no table.
func (t *Tables) Audited(id policy.NodeID) (bool, error) {
	return matches(t, id, func(r policy.Revision) bool { return r.Order.Audit })
}

// matches reports whether one of a node's policies is as is asks.
func matches(t *Tables, id policy.NodeID, is func(policy.Revision) bool) (_ bool, err error) {
	e, ok, err := t.model.Enforcement(id)
	if !ok || err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	for _, ref := range e.Matched {
		r, err := t.head(e, ref)
		if err != nil {
			return false, err
		}
		if is(r.Revision) {
			return true, nil
		}
	}
	return false, nil
}

// list is what a node enforces of some policies, with the first assumption of
// each.
func (t *Tables) list(w *datapath.Work, e *projector.Enforcement, refs []projector.HeadRef) (nodeList, error) {
	heads, of := make([]datapath.Head, len(refs)), make(map[string]contents, len(refs))
	for i, ref := range refs {
		r, err := t.head(e, ref)
		if err != nil {
			return nodeList{}, err
		}
		if err := w.Rules(len(r.Rules)); err != nil {
			return nodeList{}, err
		}
		heads[i], of[ref.Policy.String()] = datapath.Head{Policy: ref.Policy, Revision: r.Revision}, r.sum
		if t.inAudit == nil {
			heads[i] = heads[i].Enforced()
		}
	}
	list := nodeList{datapath.List(e.Node, heads), of}
	list.Assumed = slices.CompactFunc(list.Assumed, func(a, b datapath.Assumption) bool { return a.Rule.Policy == b.Rule.Policy })
	return list, nil
}

// keptHead is a revision that nodes have, and a sum of its policy and of all that it
// says. Its id is not enough: one that was staged and aborted may come again as another.
type keptHead struct {
	policy.Revision
	sum contents
}

// head reads the head revision of a policy, which is kept.
func (t *Tables) head(e *projector.Enforcement, ref projector.HeadRef) (r keptHead, err error) {
	t.mu.Lock()
	r, known := t.heads.get(ref)
	t.mu.Unlock()
	if known {
		return r, nil
	}
	r.Revision, err = e.Revision(ref)
	if err != nil {
		return r, err
	}
	r.sum = sha256.Sum256(policy.Append(nil, policy.RevisionCreated{Policy: ref.Policy, Revision: r.Revision}))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heads.put(ref, r, bytesPerRule*len(r.Rules))
	return r, nil
}

// bytesPerRule is about what a rule takes in memory.
const bytesPerRule = 400

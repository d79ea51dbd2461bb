package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// nodeFold applies events about nodes and their labels.
type nodeFold struct{ *fold }

// judgeNode accepts the facts of a node from the project that named it first,
// unless the event was applied before and is among its last. n is nil where nobody has named it.
func (j *judge) judgeNode(id policy.NodeID, project, event uuid.UUID, fault *policy.DecodeError) (n *node, v Verdict) {
	n = j.node(id)
	switch {
	case n == nil && fault != nil:
		return n, invalid(fault)
	case n == nil:
		return n, Verdict{}
	case n.project.id != project:
		return n, reject(CodeNodeIDTaken, "node id %s belongs to another project: choose another", id)
	case n.event == event:
		return n, duplicate
	case n.recent.has(event):
		return n, reject(CodeStaleEvent, "event %s of node %s was applied before and newer facts followed: publish a new event", event, id)
	case fault != nil:
		return n, invalid(fault)
	}
	return n, Verdict{}
}

// judgeRemoval is judgeNode of a removal. One of a node that is not there is a
// duplicate, whatever its body says.
func (j *judge) judgeRemoval(ev policy.NodeRemoved, fault *policy.DecodeError) (n *node, v Verdict) {
	n, v = j.judgeNode(ev.Node, ev.Project, ev.ID, fault)
	switch {
	case n == nil && !v.accepted(), n != nil && n.project.id != ev.Project:
		return n, v
	case n.gone():
		return n, duplicate
	}
	return n, v
}

// gone reports whether a node was removed, or never registered.
func (n *node) gone() bool { return n == nil || n.identity == nil }

// remember makes the event the one that gave the node its facts.
func (f nodeFold) remember(n *node, event uuid.UUID, addresses policy.Addresses) {
	facts := f.factsOf(n)
	if *facts > 0 {
		n.recent.add(n.event)
	}
	*facts, n.event = f.seq, event
	f.logNodeChange(n, addresses)
	n.placed(len(addresses))
	r := nodeRecord{present: n.identity != nil, ordinal: n.ordinal, seq: f.seq, since: n.since, event: event, recent: n.recent, addresses: addresses}
	if n.identity != nil {
		r.identity = n.identity.ordinal
	}
	f.key, f.value = appendNodeKey(f.key[:0], n.project.id, n.id), r.append(f.value[:0])
	f.set(f.key, f.value)
}

func (f nodeFold) nodeUpdated(ev policy.NodeUpdated, fault *policy.DecodeError) Verdict {
	n, v := f.judgeNode(ev.Node, ev.Project, ev.ID, fault)
	if !v.accepted() {
		return v
	}
	if n == nil {
		n = f.newNode(ev.Node, f.project(ev.Project))
	}
	before := n.identity
	if before == nil {
		f.live.nodes++
		n.project.nodes++
		f.roster = f.seq
	}
	if f.key = ev.Labels.AppendKey(f.key[:0]); before == nil || before.key != string(f.key) {
		f.move(n, f.identity(n.project, ev.Labels, f.key))
		artifactFold(f).renew(n)
	}
	if before == nil {
		artifactFold(f).recordAll(n, true)
	}
	f.remember(n, ev.ID, ev.Addresses)
	return Verdict{}
}

func (f nodeFold) nodeRemoved(ev policy.NodeRemoved, fault *policy.DecodeError) Verdict {
	n, v := f.judgeRemoval(ev, fault)
	if !v.accepted() && !(v.Duplicate && n.gone()) {
		return v
	}
	// A duplicate is noted, too: met again after the node has come, it must be known
	// as an old one.
	if n == nil {
		n = f.newNode(ev.Node, f.project(ev.Project))
	}
	if v.accepted() {
		f.live.nodes--
		n.project.nodes--
		f.roster = f.seq
		artifactFold(f).recordAll(n, false)
		f.move(n, nil)
	} else {
		n.recent.forget(ev.ID) // it is the newest again
	}
	f.remember(n, ev.ID, nil)
	return v
}

// move gives a node another identity (nil: none) and records, policy by policy,
// what it gained and lost. Rows that both identities have are not recorded.
func (f nodeFold) move(n *node, to *identity) {
	from := n.identity
	if from != nil {
		f.keepFormer(n)
		from.nodes.remove(&f.layout, n.ordinal)
		f.hold(from)
	}
	if to != nil {
		to.nodes.add(&f.layout, n.ordinal)
		f.hold(to)
	}
	n.identity, n.since = to, f.moment()
	if f.edges != nil {
		f.recordMove(n, from, to)
	}
	if from != nil && from.nodes.len() == 0 {
		f.vanish(from)
	}
}

// recordMove records what a node lost and gained.
func (f nodeFold) recordMove(n *node, from, to *identity) {
	old, new := from.selectors(), to.selectors()
	for _, s := range only(old, new) {
		for _, p := range s.policies {
			if !p.itself().underWay() || p.armOf(to) == nil {
				f.recordNode(p, n, false)
			}
		}
	}
	for _, s := range only(new, old) {
		for _, p := range s.policies {
			if was := p.otherArm(from); was == nil || was.fp != p.fp {
				f.recordNode(p, n, true)
			}
		}
	}
}

// otherArm is the arm of a policy that an identity has, while a rollout is under
// way.
func (p *policyState) otherArm(i *identity) *policyState {
	if !p.itself().underWay() {
		return nil
	}
	return p.armOf(i)
}

// only returns the members of a, sorted by ordinal, that are not in b.
func only(a, b []*selector) []*selector {
	if len(b) == 0 {
		return a
	}
	var out []*selector
	for _, s := range a {
		for len(b) > 0 && b[0].ordinal < s.ordinal {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != s {
			out = append(out, s)
		}
	}
	return out
}

// identity finds or makes the identity of a label set, whose key is given.
func (f nodeFold) identity(p *project, labels policy.Labels, key []byte) *identity {
	if i := p.identities[string(key)]; i != nil {
		return i
	}
	i := &identity{ordinal: f.nextIdent, project: p, key: string(key), labels: labels, since: f.seq}
	f.nextIdent++
	f.identities.put(i.ordinal, i)
	p.identities[i.key] = i
	p.index.enter(i)
	f.live.identities++
	f.key, f.value = appendIdentityKey(f.key[:0], i.ordinal), appendIdentity(f.value[:0], p.id, i.labels)
	f.set(f.key, f.value)
	for _, s := range i.selectors() {
		s.identities.add(i.ordinal)
	}
	return i
}

// vanish ends an identity that no node has.
func (f nodeFold) vanish(i *identity) {
	for _, s := range i.selectors() {
		s.identities.remove(i.ordinal)
	}
	i.project.index.leave(i)
	delete(i.project.identities, i.key)
	f.identities.put(i.ordinal, nil)
	f.left.put(i.ordinal, 0)
	f.live.identities--
	f.key = appendIdentityKey(f.key[:0], i.ordinal)
	f.delete(f.key)
}

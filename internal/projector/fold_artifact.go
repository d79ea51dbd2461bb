package projector

import (
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// rete is what the fold knows of a rete of a project: whose signatures count.
// It is pinned by the first release, and forgotten with its last artifact.
type rete struct {
	project *project
	name    string
	signers []policy.TrustedSigner // by SPIFFE ID
	version uint64                 // of the set that gave them; 0: the pin did
	nodes   int                    // that hold artifacts of it
}

// artifactSet is what the fold knows of a node's artifacts of one rete, for ever:
// after the last is withdrawn the version still says what is not newer. A node has one
// whose rete is not said, and where that is of another rete, one for each more.
type artifactSet struct {
	beside  string // the rete, of one beside the first; empty: the first
	rete    *rete  // nil while there are no parts
	was     string // of the first while there are no parts, the rete of those that it had
	version uint64 // the highest released
	seq     uint64 // of the event that gave the present parts
	time    int64  // unix ns, the log's
	event   uuid.UUID
	seen    uint64         // a small filter over the ids of all events
	parts   []heldPart     // by kind and name
	others  []*artifactSet // of a node's first: those beside it, by rete
}

// heldPart is an artifact of a node, and what its event id names: the later of
// the events that gave the node the artifact and its present labels, and the
// place that it had in the set which that event left.
type heldPart struct {
	artifactPart
	since moment
	place int
}

// artifactFold applies events about the artifacts of nodes.
type artifactFold struct{ *fold }

func (f artifactFold) artifactReleased(ev policy.ArtifactReleased, e *entry) Verdict {
	at, pinned, v := f.judgeRelease(ev, e.released, e.fault)
	if !v.accepted() {
		return v
	}
	proj := f.project(ev.Project)
	if at.node == nil {
		at.node = f.claim(ev.Node, proj)
	}
	s := at.set
	if s == nil {
		s = at.node.newSet(at.beside)
	}
	f.applyRelease(at.node, s, f.pin(proj, pinned, ev, e.released), ev.ID, e.released)
	return Verdict{}
}

// claim makes a node that is not registered its project's.
func (f artifactFold) claim(id policy.NodeID, p *project) *node {
	n := f.newNode(id, p)
	f.key, f.value = appendNodeKey(f.key[:0], p.id, id), nodeRecord{ordinal: n.ordinal}.append(f.value[:0])
	f.set(f.key, f.value)
	return n
}

// pin makes the signers of a set those of its rete, unless a newer set gave it
// its signers.
func (f artifactFold) pin(proj *project, t *rete, ev policy.ArtifactReleased, r *released) *rete {
	if t == nil {
		t = &rete{project: proj, name: r.rete, signers: ev.Trust}
		proj.retes[t.name] = t
	}
	if r.version >= t.version {
		t.signers, t.version = r.signers, r.version
	}
	f.storeRete(t)
	return t
}

// applyRelease gives a node its new set, and records what that changes.
func (f artifactFold) applyRelease(n *node, s *artifactSet, t *rete, event uuid.UUID, r *released) {
	if s.rete == nil {
		if s.was != "" && s.was != t.name {
			f.leaveBehind(n, s)
		}
		s.rete, s.was = t, ""
		t.nodes++
	}
	old := s.parts
	s.parts = make([]heldPart, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		s.parts[i] = heldPart{p.artifactPart, f.moment(), i}
		f.storePayload(p.fingerprint, p.document)
	}
	s.version = r.version
	f.key = appendReleaseKey(f.key[:0], n.project.id, n.id, s.beside, r.version)
	f.value = appendU64(f.value[:0], f.seq)
	f.set(f.key, f.value)
	f.recordDifference(n, s, old)
	f.remember(n, s, event)
}

// leaveBehind remembers up to which version a node had the rete of its first set, which is
// another one's from now on: no lower version of it is newer.
func (f artifactFold) leaveBehind(n *node, s *artifactSet) {
	if _, there := n.besideOf(s.was); there {
		return
	}
	left := n.newSet(s.was)
	left.version = s.version
	f.store(n, left)
}

func (f artifactFold) artifactWithdrawn(ev policy.ArtifactWithdrawn, fault *policy.DecodeError) Verdict {
	where, at, v := f.judgeWithdrawal(ev, fault)
	if at == notAsked {
		return v
	}
	n, s := where.node, where.set
	if n == nil {
		n = f.claim(ev.Node, f.project(ev.Project))
	}
	switch {
	case s == nil && n.artifacts != nil: // of a rete that the node does not have
		f.note(n, n.artifacts, ev.ID)
		return v
	case s == nil:
		s = n.newSet("")
	case at >= 0:
		f.recordOne(n, s, s.parts[at].artifactPart, at, false)
		f.release(s.parts[at].fingerprint)
		s.parts = slices.Delete(s.parts, at, at+1)
		if len(s.parts) == 0 {
			f.detachTrust(s)
		}
	}
	f.remember(n, s, ev.ID)
	return v
}

// detachTrust takes a node without artifacts off its rete, and ends the rete with
// its last: who lost every key withdraws everything, and pins anew.
func (f artifactFold) detachTrust(s *artifactSet) {
	t := s.rete
	if s.rete = nil; s.beside == "" {
		s.was = t.name
	}
	if t.nodes--; t.nodes > 0 {
		return
	}
	delete(t.project.retes, t.name)
	f.key = appendReteKey(f.key[:0], t.project.id, t.name)
	f.delete(f.key)
}

// renew gives the artifacts of a node with new labels ids of this event.
func (f artifactFold) renew(n *node) {
	place := 0
	for _, s := range n.sets() {
		for i := range s.parts {
			p := &s.parts[i]
			p.since, p.place = f.moment(), place
			place++
		}
		if len(s.parts) > 0 {
			f.store(n, s)
		}
	}
}

// remember makes the event the one that gave the node its artifacts.
func (f artifactFold) remember(n *node, s *artifactSet, event uuid.UUID) {
	s.seq, s.time, s.event = f.seq, f.time, event
	f.note(n, s, event)
}

// note has the event known when it is met again. The set stays what it is.
func (f artifactFold) note(n *node, s *artifactSet, event uuid.UUID) {
	s.seen |= eventBits(event)
	f.noteApplied(toNode(n.ordinal, event))
	f.store(n, s)
}

func (f artifactFold) store(n *node, s *artifactSet) {
	f.key, f.value = appendArtifactsKey(f.key[:0], n.project.id, n.id, s.beside), s.append(f.value[:0])
	f.set(f.key, f.value)
}

func (f artifactFold) storeRete(t *rete) {
	f.key, f.value = appendReteKey(f.key[:0], t.project.id, t.name), t.append(f.value[:0])
	f.set(f.key, f.value)
}

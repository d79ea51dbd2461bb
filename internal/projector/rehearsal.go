package projector

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Rehearsal judges events of one project about nodes and what is released for them, one
// after another, as the fold would if they were the next of the log. Nothing is written:
// it keeps what verdicts on later ones depend on, some hundred bytes for each node.
type Rehearsal struct {
	project uuid.UUID
	nodes   map[policy.NodeID]*rehearsedNode
	more    int // nodes than there are
	worn    map[labelSet]*wearers
	sets    int // label sets more than there are
	retes   map[string]*rete
	quota   *quota // what it is after these events; nil: there is none, or no event came
	usage   Usage  // what these events take
}

// rehearsedNode is a node as it would be.
type rehearsedNode struct {
	node
	set labelSet
}

// labelSet is the hash of labels: a batch may bring many large ones.
type labelSet [sha256.Size]byte

// wearers are how many nodes have a label set: those of an identity, and so many more.
type wearers struct {
	now  *identity // nil: there is none
	more int
}

func (w *wearers) by() int {
	if w.now == nil {
		return w.more
	}
	return w.now.nodes.len() + w.more
}

// labelled stands in for the identity of a node whose labels are kept as a hash.
var labelled identity

// NewRehearsal begins one.
func NewRehearsal(project uuid.UUID) *Rehearsal {
	return &Rehearsal{
		project: project, nodes: map[policy.NodeID]*rehearsedNode{}, worn: map[labelSet]*wearers{}, retes: map[string]*rete{},
	}
}

// Next is the verdict on the next event, of so many bytes, at that time.
func (r *Rehearsal) Next(v *View, e policy.Event, size int, at time.Time) Verdict {
	j := judge{state: v.m.state, store: v.m.db, time: at.UnixNano(), rehearsed: r}
	made := j.foresee(e)
	if made.accepted() {
		r.count(&j, e)
		switch ev := e.(type) {
		case policy.NodeUpdated:
			r.leaveNode(&j, ev)
		case policy.ArtifactReleased:
			r.leaveRelease(&j, ev)
		}
	}
	r.usage.take(max(hourOf(at), r.usage.last, UsageHours), uint64(size)) //nolint:gosec // a size
	return made
}

// Over is the rejection of an event that the fold would apply, if its project had room
// for it and were not archived, and when its rates let another pass; nil: it has. It comes
// after the events so far; of a nil Rehearsal there are none.
func (r *Rehearsal) Over(v *View, e policy.Event, at time.Time) (over *streams.Rejection, ready time.Time) {
	j := judge{state: v.m.state, store: v.m.db, time: at.UnixNano(), rehearsed: r}
	return j.over(e)
}

// Usage is what the project took of the log lately, with the events so far.
func (r *Rehearsal) Usage(v *View) Usage { return r.after(v.Usage(r.project)) }

// after is what was taken, and then the events so far.
func (r *Rehearsal) after(u Usage) Usage {
	hour := max(r.usage.last, u.last)
	if taken := r.usage.Bytes(time.Time{}); taken > 0 {
		u.take(hour, taken)
	}
	return u
}

// count counts an event against the rates of its project.
func (r *Rehearsal) count(j *judge, e policy.Event) {
	q := j.quotaOf(e.Scope())
	if q == nil || policy.KindOf(e).Ends {
		return
	}
	if r.quota == nil {
		own := *q
		r.quota = &own
	}
	r.quota.take(j.time)
}

// leaveNode notes what a node would be.
func (r *Rehearsal) leaveNode(j *judge, ev policy.NodeUpdated) {
	n, there := r.nodes[ev.Node]
	if !there {
		n = r.takeUp(j, ev.Node)
	}
	if n.identity == nil {
		r.more++
	} else if w := r.worn[n.set]; w.by() == 1 {
		w.more--
		r.sets--
	} else {
		w.more--
	}
	set, w := r.wears(j, ev.Labels.AppendKey(nil))
	if w.by() == 0 {
		r.sets++
	}
	w.more++
	n.identity, n.set = &labelled, set
	n.recent.add(n.event)
	n.event = ev.ID
}

// wears is who has a label set, by its key.
func (r *Rehearsal) wears(j *judge, key []byte) (labelSet, *wearers) {
	set := labelSet(sha256.Sum256(key))
	w := r.worn[set]
	if w == nil {
		w = &wearers{}
		if p := j.projects[r.project]; p != nil {
			w.now = p.identities[string(key)]
		}
		r.worn[set] = w
	}
	return set, w
}

// setOf is the label set of a node.
func (r *Rehearsal) setOf(j *judge, n *node) labelSet {
	if n := r.nodes[n.id]; n != nil {
		return n.set
	}
	set, _ := r.wears(j, []byte(n.identity.key))
	return set
}

// takeUp takes a node up that no event so far was about.
func (r *Rehearsal) takeUp(j *judge, id policy.NodeID) *rehearsedNode {
	n := &rehearsedNode{}
	if is := j.nodes[id]; is != nil {
		n.node = *is
		n.recent, n.artifacts = slices.Clone(is.recent), is.artifacts.copied()
		if is.identity != nil {
			n.set, _ = r.wears(j, []byte(is.identity.key))
		}
	} else {
		n.id, n.project = id, &project{id: r.project}
	}
	r.nodes[id] = n
	return n
}

func (s *artifactSet) copied() *artifactSet {
	if s == nil {
		return nil
	}
	c := *s
	c.others = make([]*artifactSet, len(s.others))
	for i, other := range s.others {
		c.others[i] = other.copied()
	}
	return &c
}

// leaveRelease notes what a node would hold, and whose signatures would count.
func (r *Rehearsal) leaveRelease(j *judge, ev policy.ArtifactReleased) {
	n, there := r.nodes[ev.Node]
	if !there {
		n = r.takeUp(j, ev.Node)
	}
	what, fault := readReleased(ev)
	if fault != nil {
		return // it was accepted
	}
	at, pinned, _ := j.judgeRelease(ev, what, nil)
	t := &rete{name: what.rete, signers: ev.Trust}
	if pinned != nil {
		*t = *pinned
	}
	if what.version >= t.version {
		t.signers, t.version = what.signers, what.version
	}
	r.retes[t.name] = t
	s := at.set
	if s == nil {
		s = n.newSet(at.beside)
	}
	if s.rete == nil && s.was != "" && s.was != t.name {
		if _, left := n.besideOf(s.was); !left {
			n.newSet(s.was).version = s.version
		}
	}
	s.rete, s.was, s.version, s.event = t, "", what.version, ev.ID
	s.parts = make([]heldPart, len(what.parts))
	for i, p := range what.parts {
		s.parts[i] = heldPart{artifactPart: p.artifactPart}
	}
}

// node is what the fold knows of a node id; nil: nothing.
func (j *judge) node(id policy.NodeID) *node {
	if j.rehearsed != nil {
		if n := j.rehearsed.nodes[id]; n != nil {
			return &n.node
		}
	}
	return j.nodes[id]
}

// quotaOf is the quota of a project; nil: it has none.
func (j *judge) quotaOf(project uuid.UUID) *quota {
	if r := j.rehearsed; r != nil && r.quota != nil && project == r.project {
		return r.quota
	}
	return j.quotas[project]
}

// pinnedRete is a rete of a project that has signers; nil: none.
func (j *judge) pinnedRete(project uuid.UUID, name string) *rete {
	if j.rehearsed != nil {
		if t := j.rehearsed.retes[name]; t != nil {
			return t
		}
	}
	return j.reteOf(project, name)
}

package projector

import (
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// ProjectSnapshot is what the tables of one project's nodes are made of, at one
// moment. Close it.
type ProjectSnapshot struct {
	Project uuid.UUID
	Seq     uint64 // the log sequence of the moment
	// Changes are those above the sequence that was asked about. Whole is false when
	// some of them were forgotten.
	Changes    []Change
	Whole      bool
	Generation uint64 // as Enforcement has it

	matched map[policy.NodeID][]HeadRef
	labels  map[policy.NodeID]policy.Labels
	of      *model
	snap    *pebble.Snapshot
}

// Pick names nodes of a project. It is called under the fold's lock and returns
// at once. matching are the nodes that a policy matches at that moment.
type Pick func(m *ProjectSnapshot, matching func(id uuid.UUID) iter.Seq[policy.NodeID]) []policy.NodeID

// ProjectSnapshot takes a snapshot of a project that some event has named: what
// changed in it above a sequence, and what the nodes that pick chooses enforce.
func (m *model) ProjectSnapshot(project uuid.UUID, above uint64, pick Pick) (*ProjectSnapshot, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	proj := m.state.projects[project]
	if proj == nil {
		return nil, false
	}
	out := &ProjectSnapshot{Project: project, Seq: m.cursor.seq, Generation: proj.changed, of: m}
	var all []Change
	all, out.Whole = m.state.changes.above(above)
	for _, t := range all {
		if t.Project == project {
			out.Changes = append(out.Changes, t)
		}
	}
	picked := pick(out, m.state.matchedBy)
	out.matched, out.labels = make(map[policy.NodeID][]HeadRef, len(picked)), make(map[policy.NodeID]policy.Labels, len(picked))
	heads := map[*identity][]HeadRef{}
	for _, id := range picked {
		n := m.state.nodes[id]
		if n == nil || n.identity == nil || n.project != proj {
			continue
		}
		list, known := heads[n.identity]
		if !known {
			list = headRefs(n.identity.selectors())
			heads[n.identity] = list
		}
		out.matched[id], out.labels[id] = list, n.identity.labels
	}
	out.snap = m.db.NewSnapshot()
	return out, true
}

// matchedBy are the nodes that a policy matches now.
func (s *state) matchedBy(id uuid.UUID) iter.Seq[policy.NodeID] {
	return func(yield func(policy.NodeID) bool) {
		p, goOn := s.policies[id], true
		if p == nil || p.selector == nil {
			return
		}
		each := func(o uint32) bool {
			s.identities.at(o).nodes.each(&s.layout, func(n uint32) bool {
				goOn = yield(s.nodeAt(n).id)
				return goOn
			})
			return goOn
		}
		if p.selector.identities.each(each); goOn && p.underWay() {
			p.rollout.trial.selector.identities.each(each)
		}
	}
}

// Close releases the snapshot.
func (m *ProjectSnapshot) Close() error { return m.snap.Close() }

// Nodes yields the nodes of the project by id.
func (m *ProjectSnapshot) Nodes() iter.Seq2[Placed, error] { return nodesOf(m.snap, m.Project) }

// Heads are those of a node that was picked, as Enforcement has them; not ok: it
// was not, or does not exist.
func (m *ProjectSnapshot) Heads(id policy.NodeID) (heads []HeadRef, ok bool) {
	heads, ok = m.matched[id]
	return heads, ok
}

// Labels are those of a node that was picked.
func (m *ProjectSnapshot) Labels(id policy.NodeID) policy.Labels { return m.labels[id] }

// Enforcement is that of a node with the facts and heads that it has at this
// moment. It must not be closed nor outlive the project snapshot.
func (m *ProjectSnapshot) Enforcement(n policy.Node, heads []HeadRef) *Enforcement {
	return &Enforcement{Node: n, Seq: m.Seq, Generation: m.Generation, Matched: heads, of: m.of, snap: m.snap}
}

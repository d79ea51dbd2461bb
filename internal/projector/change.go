package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Change is one event that changed a node or a policy of a project, of which tables
// are made (docs/design.md#ordered-policy).
type Change struct {
	Seq     uint64
	Project uuid.UUID
	// Policy is the policy whose head changed or ended; Nil: a node's facts changed.
	Policy uuid.UUID
	// Extended: the policy's head uses something of ordered policy. Of a deleted
	// policy it is false.
	Extended bool
	// Rewrote: the policy's rules differ from those before, so every node that it
	// matches is sent the row.
	Rewrote bool
	// Node has the node's facts from then on. Gone: it was removed.
	Node policy.Node
	Gone bool
}

// changesKept bounds how many events are remembered.
const changesKept = 4096

// changeLog holds the latest changes, oldest first, all of those above from.
type changeLog struct {
	list []Change
	from uint64
}

func (t *changeLog) add(x Change) {
	if len(t.list) >= 2*changesKept {
		old := len(t.list) - changesKept
		t.from = t.list[old-1].Seq
		t.list = append(t.list[:0], t.list[old:]...)
		clear(t.list[len(t.list):cap(t.list)])
	}
	t.list = append(t.list, x)
}

// skip forgets everything up to seq, which was not recorded.
func (t *changeLog) skip(seq uint64) { t.list, t.from = nil, seq }

// above returns the changes after a sequence; ok is false when some of them were
// forgotten.
func (t *changeLog) above(seq uint64) (list []Change, ok bool) {
	i := len(t.list)
	for i > 0 && t.list[i-1].Seq > seq {
		i--
	}
	return t.list[i:], seq >= t.from
}

// ChangesAbove returns the events above a sequence that changed a node or a policy,
// in order, and the sequence of the read model. whole is false when some of them were
// forgotten: they are too old, or were folded before the process started.
func (m *model) ChangesAbove(above uint64) (list []Change, seq uint64, whole bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list, whole = m.state.changes.above(above)
	return append([]Change(nil), list...), m.cursor.seq, whole
}

func (f *fold) logNodeChange(n *node, addresses policy.Addresses) {
	n.project.changed = f.seq
	if f.bulk {
		f.changes.skip(f.seq)
		return
	}
	t := Change{Seq: f.seq, Project: n.project.id, Node: policy.Node{ID: n.id, Project: n.project.id}, Gone: n.identity == nil}
	if n.identity != nil {
		t.Node.Labels, t.Node.Addresses = n.identity.labels, addresses
	}
	f.changes.add(t)
}

func (f *fold) logPolicyChange(p *policyState, extended, rewrote bool) {
	p.project.changed = f.seq
	if f.bulk {
		f.changes.skip(f.seq)
		return
	}
	f.changes.add(Change{Seq: f.seq, Project: p.project.id, Policy: p.id, Extended: extended, Rewrote: rewrote})
}

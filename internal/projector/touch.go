package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Touch is one event that changed a node or a policy of a project: what tables
// are made of (docs/design.md#ordered-policy).
type Touch struct {
	Seq     uint64
	Project uuid.UUID
	// Policy is whose head changed or ended; Nil: a node's facts did.
	Policy uuid.UUID
	// Extended says of a policy that its head has anything of ordered policy; a deleted
	// one has not.
	Extended bool
	// Rewrote says of a policy that its rules are others than before, so that every
	// node that it matches is told of the row.
	Rewrote bool
	// Node are the facts that a node has since. Gone: it has none.
	Node policy.Node
	Gone bool
}

// touchesKept bounds what is remembered, in events.
const touchesKept = 4096

// touches are the last events of their kind, oldest first, complete above from.
type touches struct {
	list []Touch
	from uint64
}

func (t *touches) add(x Touch) {
	if len(t.list) >= 2*touchesKept {
		old := len(t.list) - touchesKept
		t.from = t.list[old-1].Seq
		t.list = append(t.list[:0], t.list[old:]...)
		clear(t.list[len(t.list):cap(t.list)])
	}
	t.list = append(t.list, x)
}

// skip forgets what is up to seq: it was not written down.
func (t *touches) skip(seq uint64) { t.list, t.from = nil, seq }

// above are those after a sequence; ok is false when some of them are forgotten.
func (t *touches) above(seq uint64) (list []Touch, ok bool) {
	i := len(t.list)
	for i > 0 && t.list[i-1].Seq > seq {
		i--
	}
	return t.list[i:], seq >= t.from
}

// Touched are the events above a sequence that changed a node or a policy, in
// order, and the sequence that the read model stands at. Not whole: some are
// forgotten, because they are long ago or were folded before the start.
func (p *Projector) Touched(above uint64) (list []Touch, seq uint64, whole bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	list, whole = p.state.touches.above(above)
	return append([]Touch(nil), list...), p.cursor.seq, whole
}

func (f *fold) touchNode(n *node, addresses policy.Addresses) {
	n.project.changed = f.seq
	if f.bulk {
		f.touches.skip(f.seq)
		return
	}
	t := Touch{Seq: f.seq, Project: n.project.id, Node: policy.Node{ID: n.id, Project: n.project.id}, Gone: n.identity == nil}
	if n.identity != nil {
		t.Node.Labels, t.Node.Addresses = n.identity.labels, addresses
	}
	f.touches.add(t)
}

func (f *fold) touchPolicy(p *policyState, extended, rewrote bool) {
	p.project.changed = f.seq
	if f.bulk {
		f.touches.skip(f.seq)
		return
	}
	f.touches.add(Touch{Seq: f.seq, Project: p.project.id, Policy: p.id, Extended: extended, Rewrote: rewrote})
}

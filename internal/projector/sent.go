package projector

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// sentKept bounds of how many events is remembered whom they were sent to.
const sentKept = 1 << 15

// sentLog says how many nodes each of the latest events was sent to, oldest first.
type sentLog []sentTo

type sentTo struct {
	seq   uint64
	nodes int
}

func (t *sentLog) add(x sentTo) {
	if len(*t) >= 2*sentKept {
		*t = append((*t)[:0], (*t)[sentKept:]...)
	}
	*t = append(*t, x)
}

// nodes is how many nodes the edges of the present event are about.
func (t *edgeRecorder) nodes() (n int) {
	var single []*node // a node's own event has an edge for each of its policies
	for i := range t.edges[t.event:] {
		e := &t.edges[t.event+i]
		for _, s := range []Nodes{e.Have, e.Lost} {
			if s.one == nil {
				n += s.Len()
			} else if !slices.Contains(single, s.one) {
				single = append(single, s.one)
				n++
			}
		}
	}
	return n
}

// Sent is how many nodes an event changed the rows or the artifacts of, and so was sent to.
// ok is false when that is not known: the event is older than what is remembered, was folded
// in bulk or before the process started, or nobody here serves nodes.
func Sent(v *View, seq uint64) (nodes int, ok bool) {
	list := v.m.state.sent
	i, ok := slices.BinarySearchFunc(list, seq, func(x sentTo, seq uint64) int { return cmp.Compare(x.seq, seq) })
	if !ok {
		return 0, false
	}
	return list[i].nodes, true
}

// NodeBefore is a node as it was before one of its own events.
type NodeBefore struct {
	There  bool          // it existed
	Labels policy.Labels // those it had; not Same
	Same   bool          // it had the labels that the event gave it
}

// NodeAsBefore says what a node of a project was before an event of its own that was applied.
// ok is false when that is not known any more: the kept past begins later.
func NodeAsBefore(v *View, project uuid.UUID, id policy.NodeID, seq uint64) (b NodeBefore, ok bool) {
	n := v.m.state.nodes[id]
	if n == nil || n.project.id != project || seq <= v.m.state.kept.from || v.m.state.kept.unread != nil {
		return b, false
	}
	came := n.identity != nil && n.since.seq == seq
	v.m.state.kept.formers.of(n, func(r *former) bool {
		if r.until.seq == seq {
			b = NodeBefore{There: true, Labels: r.labels}
			return false
		}
		came = came || r.since == seq
		return r.until.seq > seq
	})
	if !b.There {
		b = NodeBefore{There: !came, Same: !came}
	}
	return b, true
}

// HeadAt is the revision that an event made a live policy's head, and the head before; before
// is nil of the first. ok is false when the event made none.
func HeadAt(v *View, project, id uuid.UUID, seq uint64) (head, before *policy.Revision, ok bool, err error) {
	list, err := v.Revisions(project, id, seq+1, 2)
	if err != nil || len(list) == 0 || list[0].Seq != seq {
		return nil, nil, false, err
	}
	if len(list) > 1 {
		before = &list[1].Revision
	}
	return &list[0].Revision, before, true, nil
}

package projector

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// Enforcement is what the table of one node is made of, at one moment: the
// node, the heads of the policies that match it, and all nodes of its project.
// Close it.
type Enforcement struct {
	Node policy.Node
	Seq  uint64 // the log sequence of the moment
	// Generation changes whenever a node or a policy of the project does: it is the
	// log sequence of the last event that did.
	Generation uint64
	// Matched are the heads, oldest policy id first.
	Matched []HeadRef
	// ManyHomed: some node of the project has several addresses.
	ManyHomed bool

	of   *model
	snap *pebble.Snapshot
}

// HeadRef names the head revision of a policy. Refs of one revision are equal.
type HeadRef struct {
	Policy, Revision uuid.UUID
	Fingerprint      compiler.Fingerprint // of the row it gives
	seq              uint64
}

// Enforcement takes one of a node that exists now.
func (m *model) Enforcement(id policy.NodeID) (*Enforcement, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	info, ok := (&View{m}).Node(id)
	if !ok {
		return nil, false, nil
	}
	n := m.state.nodes[id]
	e := &Enforcement{
		Node: info.Node, Seq: m.cursor.seq, Generation: n.project.changed, ManyHomed: n.project.manyHomed > 0,
		of: m, snap: m.db.NewSnapshot(),
	}
	e.Matched = headRefs(n.identity.selectors())
	return e, true, nil
}

// headRefs are the heads of the policies of some selectors, by policy id.
func headRefs(of []*selector) []HeadRef {
	var out []HeadRef
	for _, s := range of {
		for _, p := range s.policies {
			out = append(out, HeadRef{p.id, p.head, p.fp, p.headSeq})
		}
	}
	slices.SortFunc(out, func(a, b HeadRef) int { return bytes.Compare(a.Policy[:], b.Policy[:]) })
	return out
}

// Close releases what the enforcement holds.
func (e *Enforcement) Close() error { return e.snap.Close() }

// ChangesAbove are the events above a sequence, up to that of the moment, that changed
// a node or a policy of the project. Not whole: some of them are forgotten.
func (e *Enforcement) ChangesAbove(above uint64) (list []Change, whole bool) {
	e.of.mu.RLock()
	defer e.of.mu.RUnlock()
	all, whole := e.of.state.changes.above(above)
	for _, t := range all {
		if t.Project == e.Node.Project && t.Seq <= e.Seq {
			list = append(list, t)
		}
	}
	return list, whole
}

// Revision reads a head, whole.
func (e *Enforcement) Revision(h HeadRef) (policy.Revision, error) {
	return revisionOf(e.snap, h)
}

func revisionOf(snap pebble.Reader, h HeadRef) (policy.Revision, error) {
	key := appendRevisionKey(nil, h.Policy, h.seq)
	b, closer, err := revisionRecord(snap, h.Policy, h.seq)
	if err != nil {
		return policy.Revision{}, fmt.Errorf("read revision of policy %s at %d: %w", h.Policy, h.seq, err)
	}
	defer closer.Close()
	r, err := readRevision(key, b)
	return r.Revision, err
}

// Placed is a node and the log sequence of the event that gave its facts.
type Placed struct {
	policy.Node
	Seq      uint64
	identity uint32
}

// Nodes yields the nodes of the project by id, the node itself among them. Nodes
// of one label set share it.
func (e *Enforcement) Nodes() iter.Seq2[Placed, error] { return nodesOf(e.snap, e.Node.Project) }

func nodesOf(snap *pebble.Snapshot, project uuid.UUID) iter.Seq2[Placed, error] {
	return func(yield func(Placed, error) bool) {
		prefix := appendNodeKey(nil, project, "")
		it, err := snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			yield(Placed{}, fmt.Errorf("list nodes: %w", err))
			return
		}
		defer it.Close()
		labels := map[uint32]policy.Labels{}
		for ok := it.First(); ok; ok = it.Next() {
			r, err := readNode(it.Value())
			if err == nil && !r.present {
				continue
			}
			l, known := labels[r.identity]
			if err == nil && !known {
				l, err = labelsOf(snap, r.identity)
				labels[r.identity] = l
			}
			if err != nil {
				yield(Placed{}, err)
				return
			}
			n := policy.Node{ID: policy.NodeID(it.Key()[len(prefix):]), Project: project, Labels: l, Addresses: r.addresses}
			if !yield(Placed{n, r.seq, r.identity}, nil) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(Placed{}, fmt.Errorf("list nodes: %w", err))
		}
	}
}

func labelsOf(snap *pebble.Snapshot, identity uint32) (policy.Labels, error) {
	b, closer, err := snap.Get(appendIdentityKey(nil, identity))
	if err != nil {
		return nil, fmt.Errorf("read label set %d: %w", identity, err)
	}
	defer closer.Close()
	_, labels, err := readIdentity(b)
	return labels, err
}

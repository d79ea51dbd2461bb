package projector

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Enforcement is what the table of one node is made of, at one moment: the
// node, the heads of the policies that match it, and all nodes of its project.
// Close it.
type Enforcement struct {
	Node policy.Node
	Seq  uint64 // the log sequence of the moment
	// Generation changes whenever a node or a policy of the project does. It is a
	// cache key within one process.
	Generation uint64
	// Matched are the heads, oldest policy id first.
	Matched []HeadRef

	snap *pebble.Snapshot
}

// HeadRef names the head revision of a policy.
type HeadRef struct {
	Policy, Revision uuid.UUID
	seq              uint64
}

// Enforcement takes one of a node that exists now.
func (p *Projector) Enforcement(id policy.NodeID) (*Enforcement, bool, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	info, ok := (&View{p}).Node(id)
	if !ok {
		return nil, false, nil
	}
	n := p.state.nodes[id]
	e := &Enforcement{
		Node: info.Node, Seq: p.cursor.seq, Generation: n.project.changed,
		snap: p.db.NewSnapshot(),
	}
	for _, s := range n.identity.selectors {
		for _, pol := range s.policies {
			e.Matched = append(e.Matched, HeadRef{pol.id, pol.head, pol.headSeq})
		}
	}
	slices.SortFunc(e.Matched, func(a, b HeadRef) int { return bytes.Compare(a.Policy[:], b.Policy[:]) })
	return e, true, nil
}

// Close releases what the enforcement holds.
func (e *Enforcement) Close() error { return e.snap.Close() }

// Revision reads a head, whole.
func (e *Enforcement) Revision(h HeadRef) (policy.Revision, error) {
	key := appendRevisionKey(nil, h.Policy, h.seq)
	b, closer, err := e.snap.Get(key)
	if err != nil {
		return policy.Revision{}, fmt.Errorf("read revision of policy %s at %d: %w", h.Policy, h.seq, err)
	}
	defer closer.Close()
	r, err := readRevision(key, b)
	return r.Revision, err
}

// Nodes yields the nodes of the project by id, the node itself among them. Nodes
// of one label set share it.
func (e *Enforcement) Nodes() iter.Seq2[policy.Node, error] {
	return func(yield func(policy.Node, error) bool) {
		prefix := appendNodeKey(nil, e.Node.Project, "")
		it, err := e.snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			yield(policy.Node{}, fmt.Errorf("list nodes: %w", err))
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
				l, err = e.labels(r.identity)
				labels[r.identity] = l
			}
			if err != nil {
				yield(policy.Node{}, err)
				return
			}
			n := policy.Node{
				ID: policy.NodeID(it.Key()[len(prefix):]), Project: e.Node.Project,
				Labels: l, Addresses: r.addresses,
			}
			if !yield(n, nil) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(policy.Node{}, fmt.Errorf("list nodes: %w", err))
		}
	}
}

func (e *Enforcement) labels(identity uint32) (policy.Labels, error) {
	b, closer, err := e.snap.Get(appendIdentityKey(nil, identity))
	if err != nil {
		return nil, fmt.Errorf("read label set %d: %w", identity, err)
	}
	defer closer.Close()
	_, labels, err := readIdentity(b)
	return labels, err
}

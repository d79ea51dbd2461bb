package projector

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// edgeRecorder gathers the edges of one batch, while somebody wants them.
type edgeRecorder struct {
	edges  []Edge
	event  int // where those of the present event begin
	size   int
	counts map[compiler.Fingerprint]struct{} // payloads that size has
	failed bool                              // a payload or a revision could not be read: who needs the edges reads the past
}

// edgeSize is about what an edge takes beside its payload and its nodes.
const edgeSize = 320

func (t *edgeRecorder) add(e Edge) {
	t.size += edgeSize + len(e.Kind) + len(e.Name) + e.Have.size() + e.Lost.size()
	if _, counted := t.counts[e.Fingerprint]; !counted && e.Payload != nil {
		t.counts[e.Fingerprint] = struct{}{}
		t.size += len(e.Payload)
	}
	t.edges = append(t.edges, e)
}

// endEvent puts the edges of an event in the order of their ids.
func (t *edgeRecorder) endEvent() {
	slices.SortFunc(t.edges[t.event:], func(a, b Edge) int { return cmp.Compare(a.ID, b.ID) })
	t.event = len(t.edges)
}

// batch is what was gathered, by a fold that stands at seq.
func (t *edgeRecorder) batch(seq uint64, l *layout) Batch {
	if t == nil || t.failed {
		return Batch{Seq: seq}
	}
	var all [][]*node
	for i := range t.edges {
		for _, s := range []Nodes{t.edges[i].Have, t.edges[i].Lost} {
			if s.many != nil {
				if all == nil {
					all = slices.Clone(l.byOrdinal)
				}
				s.many.all = all
			}
		}
	}
	return Batch{Seq: seq, Whole: true, Edges: t.edges, Size: t.size}
}

// gain adds the nodes of some identities to those that have the row now.
func (f *fold) gain(identities *set) { f.gather(f.have, identities, &set{}) }

// gather adds to u the nodes of the identities in a that are not in b.
// Identities share no node, so differences of identities are enough.
func (f *fold) gather(u union, a, b *set) {
	if f.edges == nil {
		return
	}
	u.reserve(&f.layout, a.len())
	if b.len() > 0 {
		rest := a.clone()
		rest.subtract(b)
		a = &rest
	}
	for ordinals := range a.runs() {
		for _, o := range ordinals {
			if alone := f.alone.at(o); alone != 0 {
				u.one(&f.layout, alone-1)
			} else {
				u.add(&f.layout, &f.identities.at(o).nodes)
			}
		}
	}
}

// record makes one edge of what was gathered in have and lost.
func (f *fold) record(p *policyState) {
	if f.edges == nil {
		return
	}
	f.edge(p, f.setOf(f.have), f.setOf(f.lost))
	f.have.reset()
	f.lost.reset()
}

// recordNode records what a node's own event changed for a policy.
func (f *fold) recordNode(p *policyState, n *node, has bool) {
	if has {
		f.edge(p, f.oneOf(n), Nodes{})
	} else {
		f.edge(p, Nodes{}, f.oneOf(n))
	}
}

func (f *fold) edge(p *policyState, have, lost Nodes) {
	if have.Len()+lost.Len() == 0 {
		return
	}
	e := Edge{Item: f.item(p.number), Have: have, Lost: lost, Trace: f.trace}
	e.Policy, e.Revision, e.Head = p.id, p.head, p.itself().head
	if have.Len() > 0 {
		var err error
		e.Extended, err = f.headExtended(p)
		f.edges.failed = f.edges.failed || err != nil
	}
	f.addEdge(e, p.fp)
}

// addEdge adds an edge, with the payload of what its nodes have.
func (f *fold) addEdge(e Edge, fp compiler.Fingerprint) {
	if e.Have.Len() > 0 {
		e.Fingerprint, e.Payload = fp, f.payload(fp)
		f.edges.failed = f.edges.failed || e.Payload == nil
	}
	f.edges.add(e)
}

// item is one of the present event.
func (f *fold) item(number uint32) Item {
	return Item{ID: policy.NewEventID(f.base, f.seq, number), Seq: f.seq, Time: logTime(f.time)}
}

// payload reads what a head or an artifact has; nil: it is not what the store
// should hold.
func (f *fold) payload(fp compiler.Fingerprint) []byte {
	if b := f.wrote[fp]; b != nil {
		return b
	}
	if b := f.cache.get(fp); b != nil {
		return b
	}
	b, closer, err := f.store.Get(payloadKey(fp))
	if err != nil {
		return nil
	}
	defer closer.Close()
	if sha256.Sum256(b) != fp {
		return nil
	}
	b = slices.Clone(b)
	f.cache.put(fp, b)
	return b
}

package projector

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// NodeSummary is a node that exists now, for those who keep something about every
// node. Ordinal and Identity are handles private to this store, never reused.
// Generation changes whenever the rows of the identity do.
type NodeSummary struct {
	ID         policy.NodeID
	Project    uuid.UUID
	Ordinal    uint32
	Identity   uint32
	Generation uint64
	Facts      uint64 // log sequence of the event that gave the present facts
	Rows       bool   // whether there are any
	Labels     policy.Labels
}

func (s *state) summary(n *node) NodeSummary { return s.summaryOf(n, n.identity.selectors()) }

// summaryOf is summary of a node that these selectors match.
func (s *state) summaryOf(n *node, by []*selector) NodeSummary {
	i := n.identity
	return NodeSummary{n.id, i.project.id, n.ordinal, i.ordinal, s.rowsGeneration(i, by), *s.factsOf(n), len(by) > 0, i.labels}
}

// HasNode reports whether a node exists now.
func (v *View) HasNode(id policy.NodeID) bool {
	n := v.m.state.nodes[id]
	return n != nil && n.identity != nil
}

// NodeSummary returns the summary of a node that exists now.
func (v *View) NodeSummary(id policy.NodeID) (NodeSummary, bool) {
	n := v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return NodeSummary{}, false
	}
	return v.m.state.summary(n), true
}

// NodeAt returns the summary of the node of an ordinal that a summary or a member had;
// ok is false when the node does not exist any more.
func (v *View) NodeAt(ordinal uint32) (s NodeSummary, ok bool) {
	n := v.m.state.nodeAt(ordinal)
	if n == nil || n.identity == nil {
		return NodeSummary{}, false
	}
	return v.m.state.summary(n), true
}

// NodeCursor is a place in a walk over all nodes; the zero value is the beginning.
type NodeCursor struct{ partition, index int }

// NodeSummaries puts up to limit nodes from a place on into the memory of list, which may
// be nil, and says where the next are: more is false after the last. Nodes that come and go
// between two calls may be missed; no node comes twice.
func (v *View) NodeSummaries(list []NodeSummary, from NodeCursor, limit int) (page []NodeSummary, next NodeCursor, more bool) {
	list = slices.Grow(list[:0], limit)
	alike := map[*identity]NodeSummary{} // one of each label set that has several
	parts := v.m.state.byOrdinal
	for ; from.partition < len(parts); from = (NodeCursor{from.partition + 1, 0}) {
		for nodes := parts[from.partition]; from.index < len(nodes); from.index++ {
			if len(list) == limit {
				return list, from, true
			}
			n := nodes[from.index]
			if n == nil || n.identity == nil {
				continue
			}
			if _, alone := n.identity.nodes.sole(); alone {
				list = append(list, v.m.state.summary(n))
				continue
			}
			x, known := alike[n.identity]
			if !known {
				x = v.m.state.summary(n)
				alike[n.identity] = x
			}
			x.ID, x.Ordinal, x.Facts = n.id, n.ordinal, *v.m.state.factsOf(n)
			list = append(list, x)
		}
	}
	return list, from, false
}

// MatchedNodes are the nodes that some selectors match, as small as whoever looks at each node
// of a fleet needs them; [View.NodeAt] says more of the few that matter.
type MatchedNodes struct {
	Sets  []MatchedSet
	Nodes []MatchedNode // of many those of one ordinal after the other
}

// MatchedSet is a label set that has nodes.
type MatchedSet struct {
	Labels     policy.Labels
	Identity   uint32 // as in NodeSummary, and so is Generation
	Generation uint64
}

// MatchedNode is a node of a label set.
type MatchedNode struct {
	Facts   uint64 // as in NodeSummary
	Ordinal uint32
	Set     uint32 // its place in Sets
}

// Matched are the nodes of a project that any of the selectors matches.
func (v *View) Matched(project uuid.UUID, selectors []policy.Selector) (out MatchedNodes) {
	var of []*identity
	count := 0
	v.eachMatched(project, selectors, func(i *identity, by []*selector) {
		of, count = append(of, i), count+i.nodes.len()
		out.Sets = append(out.Sets, MatchedSet{i.labels, i.ordinal, v.m.state.rowsGeneration(i, by)})
	})
	out.Nodes = v.m.state.matchedNodes(of, count)
	return out
}

// matchedFrom is the share of a fleet, one node in so many, from which on nodes are listed by
// ordinal. Whoever keeps something of each node then reads memory in its order, which
// takes a fifth of the time; to find that order takes a look at every node's place.
const matchedFrom = 16

// matchedNodes are the nodes, so many, of label sets.
func (l *layout) matchedNodes(sets []*identity, count int) []MatchedNode {
	out := make([]MatchedNode, 0, count)
	if count*matchedFrom < l.words*64 {
		for set, i := range sets {
			i.nodes.each(l, func(o uint32) bool {
				out = append(out, MatchedNode{l.facts[l.partition(o)][l.place(o)], o, uint32(set)})
				return true
			})
		}
		return out
	}
	of := make([][]uint32, l.parts) // by partition and place, the set, from 1 on
	for part := range of {
		of[part] = make([]uint32, len(l.facts[part]))
	}
	for set, i := range sets {
		i.nodes.each(l, func(o uint32) bool {
			of[l.partition(o)][l.place(o)] = uint32(set) + 1
			return true
		})
	}
	for part, sets := range of {
		for place, set := range sets {
			if set > 0 {
				out = append(out, MatchedNode{l.facts[part][place], l.ordinal(part, uint32(place)), set - 1})
			}
		}
	}
	return out
}

// MatchedSets are the label sets of a project that any of the selectors matches: of
// each, one of its nodes.
func (v *View) MatchedSets(project uuid.UUID, selectors []policy.Selector) (out []NodeSummary) {
	v.eachMatched(project, selectors, func(i *identity, by []*selector) {
		i.nodes.each(&v.m.state.layout, func(o uint32) bool {
			out = append(out, v.m.state.summaryOf(v.m.state.nodeAt(o), by))
			return false
		})
	})
	return out
}

// eachMatched calls f once for each label set that any of the selectors matches, with all
// selectors that match it.
func (v *View) eachMatched(project uuid.UUID, selectors []policy.Selector, f func(i *identity, by []*selector)) {
	p := v.m.state.projects[project]
	if p == nil {
		return
	}
	ids := v.m.state.matchAny(p, selectors)
	found := v.m.state.cross(p, &ids)
	for place, o := range found.ids {
		f(v.m.state.identities.at(o), found.of(place))
	}
}

// Merged is the fingerprint of what every node of an identity must hold, as a
// node's state shows it; without rows that of the empty ruleset. ok is false
// when the identity is gone. Reading it costs the payloads of its rows.
func (v *View) Merged(identity uint32) (fp compiler.Fingerprint, generation uint64, ok bool, err error) {
	i := v.m.state.identities.at(identity)
	if i == nil {
		return fp, 0, false, nil
	}
	by := i.selectors()
	rows, generation := rowsInForce(by), v.m.state.rowsGeneration(i, by)
	if len(rows) == 0 {
		return compiler.Empty.Fingerprint, generation, true, nil
	}
	in := make([]compiler.Row, len(rows))
	for n, r := range rows {
		in[n].Policy = r.Policy
		if in[n].Payload, err = v.Payload(r.Fingerprint); err != nil {
			return fp, 0, false, fmt.Errorf("policy %s: %w", r.Policy, err)
		}
	}
	b, _, _ := compiler.MergePlain(in)
	return b.Fingerprint, generation, true, nil
}

// Head is a policy in force, and the place in the log of its head, or of the later
// event that last moved a rollout of it.
type Head struct {
	Project, Policy uuid.UUID
	Seq             uint64
	Time            time.Time // log timestamp of Seq
}

// Heads are the heads of the policies that match a node, of those above a log
// sequence, oldest first.
func (v *View) Heads(id policy.NodeID, above uint64) []Head {
	n := v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return nil
	}
	var out []Head
	for _, s := range n.identity.selectors() {
		for _, p := range s.policies {
			if at := p.changed(); at.seq > above {
				out = append(out, Head{p.project.id, p.id, at.seq, logTime(at.time)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Head) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

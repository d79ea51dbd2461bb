package projector

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// NodeSummary is a node that exists now, for those who keep something about every
// node. Ordinal and Identity are handles private to this store, never reused.
// Generation changes whenever the rows of the identity do.
type NodeSummary struct {
	ID         policy.NodeID
	Ordinal    uint32
	Identity   uint32
	Generation uint64
	Facts      uint64 // log sequence of the event that gave the present facts
	Rows       bool   // whether there are any
	Labels     policy.Labels
}

func (n *node) summary() NodeSummary {
	i := n.identity
	return NodeSummary{n.id, n.ordinal, i.ordinal, i.rowsGeneration(), n.seq, len(i.selectors) > 0, i.labels}
}

// NodeSummary returns the summary of a node that exists now.
func (v *View) NodeSummary(id policy.NodeID) (NodeSummary, bool) {
	n := v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return NodeSummary{}, false
	}
	return n.summary(), true
}

// NodeCursor is a place in a walk over all nodes; the zero value is the beginning.
type NodeCursor struct{ partition, index int }

// NodeSummaries lists up to limit nodes from a place on, and where the next are: more
// is false after the last. Nodes that come and go between two calls may be
// missed; no node comes twice.
func (v *View) NodeSummaries(from NodeCursor, limit int) (list []NodeSummary, next NodeCursor, more bool) {
	list = make([]NodeSummary, 0, limit)
	parts := v.m.state.byOrdinal
	for ; from.partition < len(parts); from = (NodeCursor{from.partition + 1, 0}) {
		for nodes := parts[from.partition]; from.index < len(nodes); from.index++ {
			if len(list) == limit {
				return list, from, true
			}
			if n := nodes[from.index]; n != nil && n.identity != nil {
				list = append(list, n.summary())
			}
		}
	}
	return list, from, false
}

// Matched are the nodes of a project that any of the selectors matches, one
// label set after the other.
func (v *View) Matched(project uuid.UUID, selectors []policy.Selector) (out [][]NodeSummary) {
	v.eachMatched(project, selectors, func(i *identity) { out = append(out, v.summaries(i)) })
	return out
}

// MatchedSets are the label sets of a project that any of the selectors matches: of
// each, one of its nodes.
func (v *View) MatchedSets(project uuid.UUID, selectors []policy.Selector) (out []NodeSummary) {
	v.eachMatched(project, selectors, func(i *identity) {
		i.nodes.each(&v.m.state.layout, func(o uint32) bool {
			out = append(out, v.m.state.nodeAt(o).summary())
			return false
		})
	})
	return out
}

// eachMatched calls f once for each label set that any of the selectors matches.
func (v *View) eachMatched(project uuid.UUID, selectors []policy.Selector, f func(i *identity)) {
	p := v.m.state.projects[project]
	if p == nil {
		return
	}
	seen := map[uint32]bool{}
	for _, sel := range selectors {
		matched := v.m.state.matchSide(p, sel.Source)
		other := v.m.state.matchSide(p, sel.Destination)
		matched.join(&other)
		matched.each(func(o uint32) bool {
			if !seen[o] {
				seen[o] = true
				f(v.m.state.identities[o])
			}
			return true
		})
	}
}

func (v *View) summaries(i *identity) []NodeSummary {
	nodes := make([]*node, 0, i.nodes.len())
	i.nodes.each(&v.m.state.layout, func(o uint32) bool {
		nodes = append(nodes, v.m.state.nodeAt(o))
		return true
	})
	all := NodeSummary{Identity: i.ordinal, Generation: i.rowsGeneration(), Rows: len(i.selectors) > 0, Labels: i.labels}
	out := make([]NodeSummary, len(nodes))
	// A loop of its own, and a short one: a processor then waits for the memory of many
	// nodes at a time.
	for k, n := range nodes {
		o := &out[k]
		*o = all
		o.ID, o.Ordinal, o.Facts = n.id, n.ordinal, n.seq
	}
	return out
}

// Merged is the fingerprint of what every node of an identity must hold, as a
// node's state shows it; without rows that of the empty ruleset. ok is false
// when the identity is gone. Reading it costs the payloads of its rows.
func (v *View) Merged(identity uint32) (fp compiler.Fingerprint, generation uint64, ok bool, err error) {
	i := v.m.state.identities[identity]
	if i == nil {
		return fp, 0, false, nil
	}
	rows := i.rowsInForce()
	if len(rows) == 0 {
		return compiler.Empty.Fingerprint, i.rowsGeneration(), true, nil
	}
	in := make([]compiler.Row, len(rows))
	for n, r := range rows {
		in[n].Policy = r.Policy
		if in[n].Payload, err = v.Payload(r.Fingerprint); err != nil {
			return fp, 0, false, fmt.Errorf("policy %s: %w", r.Policy, err)
		}
	}
	b, _, _ := compiler.MergePlain(in)
	return b.Fingerprint, i.rowsGeneration(), true, nil
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
	for _, s := range n.identity.selectors {
		for _, p := range s.policies {
			if at := p.changed(); at.seq > above {
				out = append(out, Head{p.project.id, p.id, at.seq, logTime(at.time)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Head) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// Step is one thing that happened to a policy: a revision, a wave of a rollout or
// its end, or the policy's deletion.
type Step struct {
	Seq         uint64
	Time        time.Time
	Selector    policy.Selector
	Fingerprint compiler.Fingerprint
	Revision    uuid.UUID
	Extended    bool   // the revision has anything of ordered policy, which the fingerprint does not show
	Deleted     bool   // nothing matches; what stands above means nothing
	Trial       *Trial // what the nodes have that a rollout has reached; nil: there is none
}

// Trial is what the revision of a rollout says to the nodes of the waves that are
// open.
type Trial struct {
	Revision    uuid.UUID
	Waves       []policy.Expr // those that are open
	Selector    policy.Selector
	Fingerprint compiler.Fingerprint
	Extended    bool
}

// Reached reports whether a wave that is open has the labels. No trial has reached
// anybody.
func (t *Trial) Reached(l policy.Labels) bool {
	return t != nil && slices.ContainsFunc(t.Waves, func(w policy.Expr) bool { return w.Matches(l) })
}

// Steps lists what happened to a policy of a project, deleted or not, newest
// first, at most limit. ok is false when the project never had it.
func (v *View) Steps(project, id uuid.UUID, limit int) (steps []Step, ok bool, err error) {
	p := v.m.state.policies[id]
	if p == nil || p.project.id != project {
		return nil, false, nil
	}
	if p.deleted() {
		steps = append(steps, Step{Seq: p.ended, Time: logTime(p.headTime), Deleted: true})
	}
	it, err := v.m.db.NewIter(&pebble.IterOptions{LowerBound: revisionKey(id, 0), UpperBound: revisionKey(id, 1<<64-1)})
	if err != nil {
		return nil, false, fmt.Errorf("list revisions: %w", err)
	}
	defer it.Close()
	for more := it.Last(); more && len(steps) < limit; more = it.Prev() {
		s, err := readStep(it.Key(), it.Value())
		if err != nil {
			return nil, false, err
		}
		steps = append(steps, s)
	}
	if err := it.Error(); err != nil {
		return nil, false, fmt.Errorf("list revisions: %w", err)
	}
	if p.rollout == nil {
		return steps, true, nil
	}
	steps, err = p.withRollouts(v.m.db, steps, limit)
	return steps, true, err
}

// withRollouts puts what rollouts did between the revisions.
func (p *policyState) withRollouts(from pebble.Reader, steps []Step, limit int) ([]Step, error) {
	for r, err := range rolloutsOf(from, p.id) {
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(steps, func(s Step) bool { return s.Seq < r.opened[0].seq })
		if at < 0 || at >= limit {
			break // it is too far back, and so are those before
		}
		steps = slices.Insert(steps, at, r.steps(p, steps[at])...)
	}
	return steps[:min(len(steps), limit)], nil
}

// steps are what a rollout did, newest first: its waves, each upon the head that there
// was, and its end where all nodes went back to that.
func (r *rollout) steps(p *policyState, head Step) (moves []Step) {
	at := func(m moment, trial *Trial) {
		moves = append(moves, Step{
			Seq: m.seq, Time: logTime(m.time), Selector: head.Selector, Fingerprint: head.Fingerprint,
			Revision: head.Revision, Extended: head.Extended, Trial: trial,
		})
	}
	for n, m := range r.opened[:min(len(r.opened), len(r.waves))] {
		at(m, &Trial{Revision: r.revision, Waves: r.waves[:n+1], Selector: r.selector, Fingerprint: r.fp, Extended: r.extended})
	}
	if r.over() && r.phase != phaseCompleted && !(p.deleted() && p.ended == r.ended.seq) {
		at(r.ended, nil)
	}
	slices.Reverse(moves)
	return moves
}

func readStep(key, value []byte) (Step, error) {
	rev, err := readRevision(key, value)
	if err != nil {
		return Step{}, err
	}
	r := reader{b: value}
	return Step{
		Seq: rev.Seq, Time: logTime(r.time()),
		Selector: rev.Selector, Fingerprint: compiler.Compile(rev.InForce()).Fingerprint,
		Revision: rev.ID, Extended: rev.Content().Extended(),
	}, r.err
}

package convergence

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Rollout says how far a policy has come.
type Rollout struct {
	Desired int // nodes that must have its head
	Applied int // of these, nodes that have it
	Dropped int // nodes it was taken from by a revision or its deletion, and that have let go of it
	// Lagging are nodes that must still apply it, or let go of it, those behind
	// for the longest first, at most as many as were asked for; Behind is how
	// many there are.
	Lagging []Lagging
	Behind  int
	// Refusals are those that lag and say that something is not applied, those that
	// do so for the longest first, at most as many as were asked for.
	Refusals []Refusal
	// Audited is what the nodes that must have the policy say they would have denied,
	// if it is in audit mode.
	Audited Audited
	// P50 and P99 are seconds from the commit of the policy's last change until
	// a report proved it applied; nil when that is known of no node.
	P50, P99 *float64
	// Arrivals are how the policy's changes arrived, the last one first, those before as
	// far as this process heard of them.
	Arrivals []Arrival
}

// maxSteps is how much of a policy's history is looked at.
const maxSteps = 64

// Rollout says how far a policy of a project has come, deleted or not; ok is
// false when the project never had it. It lists at most limit nodes. Its cost
// grows with the policy's nodes. The error is *NotReadyError, ctx's, or
// the read model's.
func (t *Tracker) Rollout(ctx context.Context, project, id uuid.UUID, limit int) (out Rollout, ok bool, err error) {
	if !t.heard() {
		return Rollout{}, false, &NotReadyError{}
	}
	var s steps
	var nodes projector.MatchedNodes
	t.opt.Model.Read(func(v *projector.View) {
		if s, ok, err = read(v, project, id); ok && err == nil {
			nodes = v.Matched(project, s.selectors())
		}
	})
	if !ok || err != nil {
		return Rollout{}, ok, err
	}
	if err := t.refresh(ctx, &nodes); err != nil {
		return Rollout{}, true, err
	}
	out, behind, refused := t.count(id, s, &nodes, limit)
	out.Lagging, out.Refusals = t.list(ctx, behind), t.refusals(refused)
	return out, true, nil
}

func read(v *projector.View, project, id uuid.UUID) (steps, bool, error) {
	list, ok, err := v.Steps(project, id, maxSteps)
	return list, ok, err
}

// refresh judges the reports of nodes that changed since they were, or whose rows did.
func (t *Tracker) refresh(ctx context.Context, nodes *projector.MatchedNodes) error {
	for part := range slices.Chunk(t.stale(nodes), chunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.opt.Model.Read(func(v *projector.View) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for _, ordinal := range part {
				if now, ok := v.NodeAt(ordinal); ok {
					t.judge(v, t.table.of(ordinal), now)
				}
			}
		})
	}
	return nil
}

// stale are the nodes that changed since their reports were judged, or whose rows did, by
// ordinal.
func (t *Tracker) stale(nodes *projector.MatchedNodes) (stale []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	reports := t.table.reader()
	for _, n := range nodes.Nodes {
		set := &nodes.Sets[n.Set]
		if r := reports.of(n.Ordinal); r.known() && !r.fresh(set.Identity, max(set.Generation, n.Facts)) {
			stale = append(stale, n.Ordinal)
		}
	}
	return stale
}

// due is what a policy asks of the nodes of a label set.
type due struct {
	labels policy.Labels
	asks   bool   // it does, or did
	change change // the last one of the row
	begin  change // the first one
	table  change // the last one of what the policy adds to tables
}

// dues are those of label sets, and the sequence of the newest change of their rows.
func (s steps) dues(sets []projector.MatchedSet) (dues []due, newest uint64) {
	dues = make([]due, len(sets))
	for i, set := range sets {
		d := &dues[i]
		d.labels = set.Labels
		if d.change, d.asks = s.last(set.Labels); d.asks {
			newest = max(newest, d.change.seq)
			d.begin, _ = s.firstAbove(0, set.Labels)
			d.table, _ = s.lastTable(set.Labels)
		}
	}
	return dues, newest
}

// done reports whether a node has the row as it is due, and the table as well.
func (d *due) done(n projector.MatchedNode, r *report) (rows, done bool) {
	rows = r.proves(max(d.change.seq, n.Facts))
	return rows, rows && r.enforces(max(d.table.seq, n.Facts))
}

// timed reports whether the report of a node that is done tells how long the newest change
// took.
func (d *due) timed(n projector.MatchedNode, r *report, newest uint64) bool {
	return d.change.seq == newest && n.Facts < newest && r.first(newest)
}

// times are how long the newest change took, as the reports of so many nodes tell that are
// the last ones; or as this process heard it, of reports, too, that newer ones have replaced.
func (t *Tracker) times(id uuid.UUID, newest uint64, timed int, dues []due, nodes []projector.MatchedNode) (times sketch) {
	if x := t.rollouts[id]; x != nil && x.seq == newest && x.times.count >= uint64(timed) {
		return x.times
	}
	reports := t.table.reader()
	for _, n := range nodes {
		d, r := &dues[n.Set], reports.of(n.Ordinal)
		if _, done := d.done(n, r); done && d.timed(n, r, newest) {
			times.add(max(0, r.arrived().Sub(d.change.time)))
		}
	}
	return times
}

// count goes through the policy's nodes.
func (t *Tracker) count(id uuid.UUID, s steps, nodes *projector.MatchedNodes, limit int) (out Rollout, behind *first[late], refused *first[refusal]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	behind, refused = newFirst(limit, late.compare), newFirst(limit, refusal.compare)
	dues, newest := s.dues(nodes.Sets)
	timed := 0
	reports := t.table.reader()
	for _, n := range nodes.Nodes {
		d := &dues[n.Set]
		c := &d.change
		if !d.asks || !c.has && n.Facts > c.seq {
			continue // it came, or came to these labels, after the row had gone
		}
		r := reports.of(n.Ordinal)
		rows, done := d.done(n, r)
		switch {
		case c.has && done:
			out.Applied++
		case done:
			out.Dropped++
		default:
			if rows {
				behind.add(late{d.table.seq, d.table.at(), n.Ordinal})
			} else {
				behind.add(d.lag(s, n, r))
			}
			if x, ok := t.table.refusal(n.Ordinal, r); ok {
				refused.add(x)
			}
		}
		if c.has {
			out.Desired++
			t.table.audits.addTo(&out.Audited, n.Ordinal, id)
		}
		if done && d.timed(n, r, newest) {
			timed++
		}
	}
	out.Behind = behind.count
	times := t.times(id, newest, timed, dues, nodes.Nodes)
	out.P50, out.P99 = times.quantile(0.50), times.quantile(0.99)
	out.Arrivals = t.arrivals(id, s, newest, &times)
	return out, behind, refused
}

package convergence

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
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
	var groups []projector.MatchedNodes
	t.opt.Model.Read(func(v *projector.View) {
		if s, ok, err = read(v, project, id); ok && err == nil {
			groups = v.Matched(project, s.selectors())
		}
	})
	if !ok || err != nil {
		return Rollout{}, ok, err
	}
	if err := t.refresh(ctx, groups); err != nil {
		return Rollout{}, true, err
	}
	out, behind, refused := t.count(id, s, groups, limit)
	out.Lagging, out.Refusals = t.list(ctx, behind), t.refusals(refused)
	return out, true, nil
}

func read(v *projector.View, project, id uuid.UUID) (steps, bool, error) {
	list, ok, err := v.Steps(project, id, maxSteps)
	return list, ok, err
}

// refresh judges the reports of nodes whose rows changed since they were.
func (t *Tracker) refresh(ctx context.Context, groups []projector.MatchedNodes) error {
	for part := range slices.Chunk(t.stale(groups), chunk) {
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

// stale are the nodes whose rows changed since their reports were judged, by ordinal.
func (t *Tracker) stale(groups []projector.MatchedNodes) (nodes []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range groups {
		for _, m := range g.Nodes {
			if r := t.table.of(m.Ordinal); r.known() && !r.fresh(g.Identity, g.Generation) {
				nodes = append(nodes, m.Ordinal)
			}
		}
	}
	return nodes
}

// count goes through the policy's nodes.
func (t *Tracker) count(id uuid.UUID, s steps, groups []projector.MatchedNodes, limit int) (out Rollout, behind *first[late], refused *first[refusal]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	behind, refused = newFirst(limit, late.compare), newFirst(limit, refusal.compare)
	var times sketch
	changes, newest := s.ofGroups(groups)
	for i, g := range groups {
		c := changes[i]
		if c.seq == 0 {
			continue
		}
		begin, _ := s.firstAbove(0, g.Labels)
		table, _ := s.lastTable(g.Labels)
		for _, m := range g.Nodes {
			if !c.has && m.Facts > c.seq {
				continue // it came, or came to these labels, after the row had gone
			}
			r := t.table.of(m.Ordinal)
			rows := r.proves(max(c.seq, m.Facts))
			done := rows && t.table.tables.reaches(m.Ordinal, max(table.seq, m.Facts))
			switch {
			case c.has && done:
				out.Applied++
			case done:
				out.Dropped++
			default:
				if rows {
					behind.add(late{m.Ordinal, table.seq, table.time})
				} else {
					behind.add(lag(s, g.Labels, m, r, c, begin))
				}
				if x, ok := t.table.refusal(m.Ordinal, r); ok {
					refused.add(x)
				}
			}
			if c.has {
				out.Desired++
				t.table.audits.addTo(&out.Audited, m.Ordinal, id)
			}
			if done && c.seq == newest && m.Facts < c.seq && r.first(c.seq) {
				times.add(max(0, r.arrived().Sub(c.time)))
			}
		}
	}
	out.Behind = behind.count
	if x := t.rollouts[id]; x != nil && x.seq == newest && x.times.count > times.count {
		times = x.times // of reports, too, that newer ones have replaced
	}
	out.P50, out.P99 = times.quantile(0.50), times.quantile(0.99)
	out.Arrivals = t.arrivals(id, s, newest, &times)
	return out, behind, refused
}

// ofGroups are the last changes of the rows of each group, zero where there
// never was one, and the sequence of the newest of them.
func (s steps) ofGroups(groups []projector.MatchedNodes) (changes []change, newest uint64) {
	changes = make([]change, len(groups))
	for i, g := range groups {
		if c, ok := s.last(g.Labels); ok {
			changes[i], newest = c, max(newest, c.seq)
		}
	}
	return changes, newest
}

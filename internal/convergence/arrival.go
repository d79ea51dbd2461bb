package convergence

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// arrival is a report on its way into the table.
type arrival struct {
	node policy.NodeID
	said policy.Report
	at   time.Time
}

// take puts a batch into the table. Those up to old came before this process
// listened. Of a node only its last report counts, so a node that floods the
// plane costs little more than one that does not.
func (t *Tracker) take(ctx context.Context, batch []streams.Message, old uint64) error {
	last := make(map[string]int, len(batch))
	for i := range batch {
		last[batch[i].Subject] = i
	}
	var before, now []arrival
	for i := range batch {
		m := &batch[i]
		if last[m.Subject] != i {
			continue
		}
		a, err := t.read(ctx, m)
		var ahead *AheadError
		switch {
		case errors.As(err, &ahead):
			t.opt.Metrics.Reported(Ahead)
		case err != nil && ctx.Err() == nil && !isViolation(err):
			return err
		case err != nil:
			t.opt.Metrics.Reported(Malformed)
		case m.Seq <= old:
			before = append(before, a)
		default:
			now = append(now, a)
		}
	}
	t.keep(before)
	t.hear(now)
	return ctx.Err()
}

func isViolation(err error) bool {
	var v policy.Violations
	return errors.As(err, &v)
}

func (t *Tracker) read(ctx context.Context, m *streams.Message) (a arrival, err error) {
	if a.node, err = streams.ReportNode(m.Subject); err != nil {
		return a, err
	}
	if len(m.Body) > policy.MaxReport {
		return a, policy.Violations{{Code: policy.CodeMalformedJSON, Detail: "longer than a report can be"}}
	}
	if a.said, err = policy.DecodeReport(m.Body); err != nil {
		return a, err
	}
	a.at = m.Time
	a.said.Version = t.version(a.said)
	return a, t.reach(ctx, max(1, a.said.Version, a.said.Table))
}

// version is the log sequence that a report names. Reports without an event id
// need not know the log's base.
func (t *Tracker) version(said policy.Report) uint64 {
	if said.Event == 0 {
		return said.Version
	}
	return said.Seq(t.opt.Model.Base())
}

// chunk bounds how many reports are judged while the fold waits.
const chunk = 64

// keep notes reports from before. They are judged when somebody asks: a fleet's
// would hold up the start.
func (t *Tracker) keep(list []arrival) {
	t.each(list, func(_ *projector.View, s projector.NodeSummary, a arrival) {
		t.table.put(s.Ordinal, a.said, a.at, false)
	})
}

// hear notes reports as they come, judges them and takes their times.
func (t *Tracker) hear(list []arrival) {
	t.each(list, func(v *projector.View, s projector.NodeSummary, a arrival) {
		r, news := t.table.put(s.Ordinal, a.said, a.at, true)
		t.judge(v, r, s)
		if !r.applied() {
			t.opt.Metrics.Reported(r.outcome.String())
			return
		}
		if !r.holds {
			t.opt.Metrics.Reported(Lags)
			return
		}
		t.opt.Metrics.Reported(Holds)
		if news {
			t.clock(v, s, r)
		}
	})
}

// each calls f for the reports of nodes that are known, under both locks.
func (t *Tracker) each(list []arrival, f func(v *projector.View, s projector.NodeSummary, a arrival)) {
	for len(list) > 0 {
		n := min(chunk, len(list))
		t.opt.Model.Read(func(v *projector.View) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.turns++
			for _, a := range list[:n] {
				if s, ok := v.NodeSummary(a.node); ok {
					f(v, s, a)
				} else {
					t.opt.Metrics.Reported(Unknown)
				}
			}
		})
		list = list[n:]
	}
}

// judge holds a report against the view. What was said before the node was removed and came
// again, or before there was one, is no word of it, and is forgotten. A row that cannot be read is not held:
// whoever serves the node's state says so loudly.
func (t *Tracker) judge(v *projector.View, r *report, s projector.NodeSummary) {
	since := max(s.Generation, s.Facts)
	if !r.known() || r.fresh(s.Identity, since) {
		return
	}
	// A report of another log, which names no event, speaks by its fingerprint.
	if r.version > 0 && r.version < s.Facts && r.version < v.Came(s.ID) {
		t.table.forget(s.Ordinal, r)
		return
	}
	w, ok := t.wants[s.Identity]
	if !ok || w.generation != s.Generation {
		fp, generation, ok, err := v.Merged(s.Identity)
		if !ok || err != nil {
			return
		}
		if len(t.wants) >= maxWants {
			clear(t.wants)
		}
		w = want{generation, fp}
		t.wants[s.Identity] = w
	}
	r.judge(s.Identity, since, w.print)
}

// clock takes the times of what a report is the first to prove: of every policy
// whose head changed the node's row since the report before. What the node
// itself became since then is no policy's doing.
func (t *Tracker) clock(v *projector.View, s projector.NodeSummary, r *report) {
	for _, h := range v.Heads(s.ID, max(r.previous, s.Facts)) {
		if !r.first(h.Seq) {
			continue
		}
		c, ok := t.steps(v, h).last(s.Labels)
		if !ok || !r.first(c.seq) || c.seq < s.Facts {
			continue
		}
		took := max(0, r.arrived().Sub(c.time))
		t.timing(h.Policy, c.seq).times.add(took)
		t.opt.Metrics.Applied(took)
	}
}

// steps are the last of a policy, remembered.
func (t *Tracker) steps(v *projector.View, h projector.Head) steps {
	if p, ok := t.past[h.Policy]; ok && p.head == h.Seq {
		return p.steps
	}
	list, _, err := v.Steps(h.Project, h.Policy, recentSteps)
	if err != nil {
		return nil // no time is taken; whoever serves the policy says why
	}
	if len(t.past) >= maxPast {
		clear(t.past)
	}
	t.past[h.Policy] = past{h.Seq, list}
	return list
}

// timing is the one of a policy's change at seq. A newer change begins anew.
func (t *Tracker) timing(id uuid.UUID, seq uint64) *timing {
	x := t.rollouts[id]
	if x == nil || x.seq != seq {
		if x != nil && x.seq > seq {
			return new(timing)
		}
		if len(t.rollouts) >= maxRollouts {
			clear(t.rollouts)
		}
		x = x.followed(seq)
		t.rollouts[id] = x
	}
	return x
}

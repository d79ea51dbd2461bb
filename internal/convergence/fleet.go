package convergence

import (
	"context"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Fleet says how far all nodes have come.
type Fleet struct {
	Desired  int // nodes there are
	Applied  int // nodes that hold what they must, and those of which nothing is asked
	Reported int // nodes that ever reported
	States   Counts
	// NotApplied counts those that say that something is not applied, by outcome.
	NotApplied map[policy.Outcome]int
	Lagging    []Lagging // the others, those behind for the longest first, at most as many as were asked for
}

// stride is how many nodes are looked at while the fold waits.
const stride = 1024

// fleetAnswer is an answer, and what it holds for: as long as nothing is folded and
// nothing reported, it is the next one too.
type fleetAnswer struct {
	seq, turns uint64
	limit      int
	fleet      Fleet
}

// moment is what was folded, and how often reports were taken.
type moment struct{ seq, turns uint64 }

func (x fleetAnswer) moment() moment { return moment{x.seq, x.turns} }

// Fleet goes through all nodes, unless nothing happened since it last did, and
// lists at most limit of those that lag. The error is *NotReadyError, or
// ctx's.
func (t *Tracker) Fleet(ctx context.Context, limit int) (Fleet, error) {
	if !t.heard() {
		return Fleet{}, &NotReadyError{}
	}
	before := t.now(limit)
	t.mu.Lock()
	last := t.fleet
	t.mu.Unlock()
	if last != nil && last.seq == before.seq && last.turns == before.turns && last.limit == limit {
		return last.fleet, nil
	}
	out, err := t.walk(ctx, limit)
	if after := t.now(limit); err == nil && after.seq == before.seq && after.turns == before.turns {
		after.fleet = out
		t.mu.Lock()
		t.fleet = &after
		t.mu.Unlock()
	}
	return out, err
}

// now is what an answer given now holds for.
func (t *Tracker) now(limit int) (x fleetAnswer) {
	t.opt.Model.Read(func(v *projector.View) {
		t.mu.Lock()
		defer t.mu.Unlock()
		x = fleetAnswer{seq: v.Seq(), turns: t.turns, limit: limit}
	})
	return x
}

func (t *Tracker) walk(ctx context.Context, limit int) (Fleet, error) {
	out := Fleet{NotApplied: map[policy.Outcome]int{}}
	behind := newFirst(limit, late.compare)
	var page []projector.NodeSummary
	var at projector.NodeCursor
	for more := true; more && ctx.Err() == nil; {
		t.opt.Model.Read(func(v *projector.View) {
			t.mu.Lock()
			defer t.mu.Unlock()
			page, at, more = v.NodeSummaries(page, at, stride)
			for _, s := range page {
				out.Desired++
				r := t.table.of(s.Ordinal)
				t.judge(v, r, s)
				if r.known() {
					out.Reported++
				}
				if r.known() && !r.applied() {
					out.NotApplied[r.outcome]++
				}
				state := stateOf(s, r)
				if out.States[state]++; state == StateApplied {
					out.Applied++
				} else {
					behind.add(behindOf(v, s, r))
				}
			}
		})
	}
	if err := ctx.Err(); err != nil {
		return Fleet{}, err
	}
	out.Lagging = t.list(ctx, behind)
	return out, ctx.Err()
}

// behindOf is since when a node does not hold what it must: since the oldest
// head above what it reported, or its own last event; else since its rows
// changed otherwise, or it reported other rules than it was sent, or that they
// are not in force.
func behindOf(v *projector.View, s projector.NodeSummary, r *report) late {
	l := late{ordinal: s.Ordinal}
	if r.known() && !r.applied() {
		l.seq, l.at = r.version, r.at
		return l
	}
	if heads := v.Heads(s.ID, r.version); len(heads) > 0 {
		l.seq, l.at = heads[0].Seq, nanosOf(heads[0].Time)
	}
	switch {
	case s.Facts > max(l.seq, r.version):
		l.seq, l.at = s.Facts, 0
	case l.seq == 0 && s.Generation > r.version:
		l.seq, l.at = s.Generation, 0
	case l.seq == 0:
		l.seq, l.at = r.version, r.at
	}
	return l
}

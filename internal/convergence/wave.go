package convergence

import (
	"context"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Share counts the nodes of one or more waves whose rows their rollout changed.
type Share struct {
	Nodes   int
	Applied int // that have what the rollout asks of them; silent nodes have not
	Refused int // that refused it
}

// Reached says what the nodes report that a rollout has reached.
type Reached struct {
	Rollout projector.Rollout
	All     Share   // in all open waves
	Newest  Share   // in the newest of them, and in none before
	Example Refusal // one of those that refused it, the one that does so for the longest
}

// Reached says what the nodes report that the latest rollout of a policy has reached;
// ok is false when it has reached none, or has ended. Of a refusal that was said
// before the rollout asked anything of its node nothing is counted but the silence.
// Its cost grows with the policy's nodes. Errors are those of [Tracker.Rollout].
func (t *Tracker) Reached(ctx context.Context, project, id uuid.UUID) (out Reached, ok bool, err error) {
	if !t.heard() {
		return out, false, &NotReadyError{}
	}
	var s steps
	var nodes projector.MatchedNodes
	t.opt.Model.Read(func(v *projector.View) {
		if out.Rollout, ok = projector.RolloutOf(v, project, id); !ok || !out.Rollout.UnderWay() {
			ok = false
			return
		}
		// The waves, and the head that they are beside.
		if s, ok, err = v.Steps(project, id, len(out.Rollout.Opened)+1); ok && err == nil {
			nodes = v.Matched(project, s.selectors())
		}
	})
	if !ok || err != nil {
		return out, false, err
	}
	if err := t.refresh(ctx, &nodes); err != nil {
		return out, false, err
	}
	example := t.countWaves(&out, s, &nodes)
	if shown := t.refusals(example); len(shown) > 0 {
		out.Example = shown[0]
	}
	return out, true, nil
}

// countWaves goes through the nodes of the open waves, and keeps the refusal that lasts the
// longest.
func (t *Tracker) countWaves(out *Reached, s steps, nodes *projector.MatchedNodes) (example *first[refusal]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	example = newFirst(1, refusal.compare)
	open := out.Rollout.Waves[:len(out.Rollout.Opened)]
	dues, _ := s.dues(nodes.Sets)
	waves := make([]int, len(dues))
	for i := range dues {
		waves[i] = firstWave(open, dues[i].labels)
	}
	reports := t.table.reader()
	for _, n := range nodes.Nodes {
		d, wave, r := &dues[n.Set], waves[n.Set], reports.of(n.Ordinal)
		if wave < 0 || !d.asksSince(out.Rollout.First, n, r) {
			continue
		}
		one := t.shareOf(d, n, r, out.Rollout.First, example)
		out.All.add(one)
		if wave == len(open)-1 {
			out.Newest.add(one)
		}
	}
	return example
}

// asksSince reports whether anything is asked of a node that is no older than first. A
// table is asked of those that enforce one.
func (d *due) asksSince(first uint64, n projector.MatchedNode, r *report) bool {
	row := d.asks && d.change.seq >= first
	if !row && (d.table.seq < first || r.table == 0) {
		return false // it has what it had, or no row shows the change
	}
	return d.change.has || n.Facts <= d.change.seq // else it never had what is gone
}

// shareOf is what one node says of what was asked of it. What it refused is an example,
// unless that is of something else, older than what the rollout itself asks.
func (t *Tracker) shareOf(d *due, n projector.MatchedNode, r *report, rollout uint64, example *first[refusal]) Share {
	asked := d.change.seq
	if asked < rollout {
		asked = d.table.seq // the row is older than the rollout
	}
	one := Share{Nodes: 1}
	_, done := d.done(n, r)
	switch x, not := t.table.refusal(n.Ordinal, r); {
	case done:
		one.Applied = 1
	case not && x.outcome == policy.OutcomeRefused && r.version >= max(asked, n.Facts):
		one.Refused = 1
		example.add(x)
	}
	return one
}

func (s *Share) add(other Share) {
	s.Nodes += other.Nodes
	s.Applied += other.Applied
	s.Refused += other.Refused
}

// firstWave is the place of the first wave that has the labels; -1: none does.
func firstWave(waves []policy.Expr, l policy.Labels) int {
	for i, w := range waves {
		if w.Matches(l) {
			return i
		}
	}
	return -1
}

// Moved is closed when this process hears a report, or anything else that may change
// what it knows of them.
func (t *Tracker) Moved() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved
}

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
	var groups []projector.MatchedNodes
	t.opt.Model.Read(func(v *projector.View) {
		if out.Rollout, ok = projector.RolloutOf(v, project, id); !ok || !out.Rollout.UnderWay() {
			ok = false
			return
		}
		// The waves, and the head that they are beside.
		if s, ok, err = v.Steps(project, id, len(out.Rollout.Opened)+1); ok && err == nil {
			groups = v.Matched(project, s.selectors())
		}
	})
	if !ok || err != nil {
		return out, false, err
	}
	if err := t.refresh(ctx, groups); err != nil {
		return out, false, err
	}
	example := t.countWaves(&out, s, groups)
	if shown := t.refusals(example); len(shown) > 0 {
		out.Example = shown[0]
	}
	return out, true, nil
}

// countWaves goes through the nodes of the open waves, and keeps the refusal that lasts the
// longest.
func (t *Tracker) countWaves(out *Reached, s steps, groups []projector.MatchedNodes) (example *first[refusal]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	example = newFirst(1, refusal.compare)
	open := out.Rollout.Waves[:len(out.Rollout.Opened)]
	for _, g := range groups {
		wave := firstWave(open, g.Labels)
		c, changed := s.last(g.Labels)
		table, _ := s.lastTable(g.Labels)
		changed = changed && c.seq >= out.Rollout.First
		if wave < 0 || !changed && table.seq < out.Rollout.First {
			continue // it has what it had
		}
		for _, m := range g.Nodes {
			if _, enforces := t.table.tables[m.Ordinal]; !changed && !enforces {
				continue // no row shows the change
			}
			if !c.has && m.Facts > c.seq {
				continue // it never had what is gone
			}
			asked := c.seq
			if !changed {
				asked = table.seq // the row is older than the rollout
			}
			one := t.shareOf(m.Ordinal, asks{max(c.seq, m.Facts), max(table.seq, m.Facts), max(asked, m.Facts)}, example)
			out.All.add(one)
			if wave == len(open)-1 {
				out.Newest.add(one)
			}
		}
	}
	return example
}

// asks are the log sequences of what is asked of a node: of the last change of its row, and
// of the table that it enforces, and of what the rollout itself asks, below which a
// refusal is of something else.
type asks struct{ row, table, rollout uint64 }

// shareOf is what one node says of what was asked of it. What it refused is an example.
func (t *Tracker) shareOf(ordinal uint32, of asks, example *first[refusal]) Share {
	r := t.table.of(ordinal)
	one := Share{Nodes: 1}
	switch x, not := t.table.refusal(ordinal, r); {
	case r.proves(of.row) && t.table.tables.reaches(ordinal, of.table):
		one.Applied = 1
	case not && x.outcome == policy.OutcomeRefused && r.version >= of.rollout:
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

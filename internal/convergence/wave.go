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
	var groups [][]projector.NodeSummary
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
	t.countWaves(&out, s, groups)
	return out, true, nil
}

// countWaves goes through the nodes of the open waves.
func (t *Tracker) countWaves(out *Reached, s steps, groups [][]projector.NodeSummary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := out.Rollout.Waves[:len(out.Rollout.Opened)]
	for _, members := range groups {
		wave := firstWave(open, members[0].Labels)
		c, changed := s.last(members[0].Labels)
		table, _ := s.lastTable(members[0].Labels)
		changed = changed && c.seq >= out.Rollout.First
		if wave < 0 || !changed && table.seq < out.Rollout.First {
			continue // it has what it had
		}
		for i := range members {
			member := &members[i]
			if _, enforces := t.table.tables[member.Ordinal]; !changed && !enforces {
				continue // no row shows the change
			}
			if !c.has && member.Facts > c.seq {
				continue // it never had what is gone
			}
			one := t.shareOf(out, member, max(c.seq, member.Facts), max(table.seq, member.Facts))
			out.All.add(one)
			if wave == len(open)-1 {
				out.Newest.add(one)
			}
		}
	}
}

// shareOf is what one node says of what an event at seq asked of it, and one at table of
// the table that it enforces.
func (t *Tracker) shareOf(out *Reached, member *projector.NodeSummary, seq, table uint64) Share {
	r := t.table.of(member.Ordinal)
	one := Share{Nodes: 1}
	switch x, not := t.table.refusal(member, r); {
	case r.proves(seq) && t.table.tables.reaches(member.Ordinal, table):
		one.Applied = 1
	case not && x.Outcome == policy.OutcomeRefused && r.version >= seq:
		one.Refused = 1
		if was := out.Example; was.Node == "" || x.compare(was) < 0 {
			out.Example = x
		}
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

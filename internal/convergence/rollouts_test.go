package convergence

import (
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// rolling is a revision beside the head of a policy, and how many of its waves are
// open.
type rolling struct {
	revision policy.Revision
	waves    []policy.Expr
	opened   int
	abort    bool // it goes back where it is stopped
	halted   bool
}

func (r *rolling) underWay() bool { return r != nil && r.opened > 0 }

// roll remembers what an event did to a rollout.
func (w *world) roll(e policy.Event) {
	switch e := e.(type) {
	case policy.RevisionStaged:
		w.rolling[e.Policy] = &rolling{revision: e.Revision}
	case policy.RevisionPromoted:
		r := w.rolling[e.Policy]
		r.waves, r.abort = e.Waves, e.Gate.Abort
		w.open(e.Policy)
	case policy.WaveOpened:
		w.open(e.Policy)
	case policy.RolloutStopped:
		if w.rolling[e.Policy].halted = true; w.rolling[e.Policy].abort {
			delete(w.rolling, e.Policy)
		}
	case policy.RolloutAborted:
		delete(w.rolling, e.Policy)
	}
}

func (w *world) open(id uuid.UUID) {
	r := w.rolling[id]
	r.halted = false
	if r.opened++; r.opened > len(r.waves) {
		w.heads[id] = r.revision
		delete(w.rolling, id)
	}
}

// says is the revision of a policy that is for nodes of a role.
func (w *world) says(id uuid.UUID, role string) policy.Revision {
	r := w.rolling[id]
	if r.underWay() && slices.ContainsFunc(r.waves[:r.opened], func(e policy.Expr) bool { return e.Matches(label(role)) }) {
		return r.revision
	}
	return w.heads[id]
}

// moveRollout does the next thing to a rollout of a policy that lives, by chance.
func (w *world) moveRollout(id uuid.UUID) {
	r := w.rolling[id]
	switch x := w.rnd.IntN(8); {
	case r == nil || x == 0 && !r.underWay():
		_, staged := w.draft(id, random(w, []string{"a", "a,b", "b,c", "a,b,c", "d"}), uint16(1+w.rnd.IntN(2)))
		w.publish(policy.RevisionStaged{ID: w.id(), Project: home, Policy: id, Revision: staged})
	case r.revision.Parent != w.heads[id].ID: // the head is another by now
		w.publish(policy.RolloutAborted{ID: w.id(), Project: home, Policy: id, Revision: r.revision.ID})
	case !r.underWay():
		e := policy.RevisionPromoted{ID: w.id(), Project: home, Policy: id, Revision: r.revision.ID}
		e.Gate = policy.DefaultGate
		e.Gate.Abort = w.rnd.IntN(2) == 0
		for range w.rnd.IntN(4) {
			wave, faults := policy.ParseExpr(random(w, []string{"role=a", "role=b", "role=c", "role in (a,c)", "role=d"}))
			require.Empty(w.t, faults)
			e.Waves = append(e.Waves, wave)
		}
		w.publish(e)
	case x < 5:
		w.publish(policy.WaveOpened{ID: w.id(), Project: home, Policy: id, Revision: r.revision.ID, Wave: uint8(r.opened + 1)})
	case x == 5 && !r.halted:
		w.publish(policy.RolloutStopped{ID: w.id(), Project: home, Policy: id, Revision: r.revision.ID, Wave: uint8(r.opened), Reason: "refused"})
	default:
		w.publish(policy.RolloutAborted{ID: w.id(), Project: home, Policy: id, Revision: r.revision.ID})
	}
}

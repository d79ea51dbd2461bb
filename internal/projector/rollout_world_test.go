package projector

import (
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

// rolling is what an honest fool knows of the rollout of a policy that has not
// ended.
type rolling struct {
	staged policy.RevisionStaged
	waves  []policy.Expr
	opened int // 0: it is only staged
	abort  bool
	halted bool
}

func (r *rolling) underWay() bool { return r != nil && r.opened > 0 }

// reached reports whether a wave that is open has the labels.
func (r *rolling) reached(l policy.Labels) bool {
	return r.underWay() && slices.ContainsFunc(r.waves[:r.opened], func(w policy.Expr) bool { return w.Matches(l) })
}

// rollout judges and applies an event about a rollout; moved says that it changed
// what nodes have.
func (o *oracle) rollout(e policy.Event) (moved bool) {
	head, r := policy.RevisionCreated{}, (*rolling)(nil)
	of := func(project, id uuid.UUID) bool {
		head, r = o.pols[id], o.rolling[id]
		return head.ID != uuid.Nil && head.Project == project
	}
	end := func(id uuid.UUID) (was bool) {
		was = r.underWay()
		delete(o.rolling, id)
		return was
	}
	open := func(id uuid.UUID) bool {
		if r.opened++; r.opened > len(r.waves) {
			head.ID, head.Revision = r.staged.ID, r.staged.Revision
			o.pols[id] = head
			delete(o.rolling, id)
		}
		return true
	}
	switch e := e.(type) {
	case policy.RevisionStaged:
		if of(e.Project, e.Policy) && !r.underWay() && e.Revision.Parent == head.Revision.ID {
			o.rolling[e.Policy] = &rolling{staged: e}
		}
	case policy.RevisionPromoted:
		if of(e.Project, e.Policy) && r != nil && !r.underWay() && r.staged.Revision.ID == e.Revision && r.staged.Revision.Parent == head.Revision.ID {
			r.waves, r.abort = e.Waves, e.Gate.Abort
			return open(e.Policy)
		}
	case policy.WaveOpened:
		if of(e.Project, e.Policy) && r.underWay() && r.staged.Revision.ID == e.Revision && int(e.Wave) == r.opened+1 && !(e.Gated && r.halted) {
			r.halted = false
			return open(e.Policy)
		}
	case policy.RolloutStopped:
		if of(e.Project, e.Policy) && r.underWay() && r.staged.Revision.ID == e.Revision && int(e.Wave) == r.opened && !r.halted {
			if r.abort {
				return end(e.Policy)
			}
			r.halted = true
		}
	case policy.RolloutAborted:
		if of(e.Project, e.Policy) && r != nil && r.staged.Revision.ID == e.Revision {
			return end(e.Policy)
		}
	}
	return false
}

// says is the revision of a policy that is for nodes with these labels.
func (o *oracle) says(p policy.RevisionCreated, l policy.Labels) (r policy.Revision, trial bool) {
	if x := o.rolling[p.Policy]; x.reached(l) {
		return x.staged.Revision, true
	}
	return p.Revision, false
}

// drawRollout draws the next event about the rollout of a policy, which is mostly
// one that follows.
func drawRollout(t *rapid.T, o *oracle, i, proj, p int) policy.Event {
	head, r := o.pols[pol(p)], o.rolling[pol(p)]
	revision := rev(i)
	if r != nil && rapid.IntRange(0, 15).Draw(t, "another") > 0 {
		revision = r.staged.Revision.ID
	}
	wave := uint8(1)
	if r.underWay() {
		wave = uint8(r.opened)
	}
	switch kind := rapid.IntRange(0, 9).Draw(t, "rollout"); {
	case r == nil || kind == 9:
		e := drawRevision(t, i, proj, p, head, head.ID != uuid.Nil)
		e.Revision.ID = rev(2000 + i*389%1009) // no other revision has it
		return policy.RevisionStaged{ID: e.ID, Project: e.Project, Policy: e.Policy, Revision: e.Revision}
	case !r.underWay() && kind < 8:
		e := policy.RevisionPromoted{ID: evt(i), Project: tenant(proj), Policy: pol(p), Revision: revision}
		e.Gate = policy.DefaultGate
		e.Gate.Abort = rapid.Bool().Draw(t, "abort")
		for range rapid.IntRange(0, 3).Draw(t, "waves") {
			e.Waves = append(e.Waves, expr(t, rapid.SampledFrom(selectorPool).Draw(t, "wave")))
		}
		return e
	case kind < 6:
		return policy.WaveOpened{ID: evt(i), Project: tenant(proj), Policy: pol(p), Revision: revision, Wave: wave + uint8(min(1, rapid.IntRange(0, 7).Draw(t, "next"))), Gated: rapid.Bool().Draw(t, "gated")}
	case kind < 7:
		return policy.RolloutStopped{ID: evt(i), Project: tenant(proj), Policy: pol(p), Revision: revision, Wave: wave, Reason: "too many refused"}
	}
	return policy.RolloutAborted{ID: evt(i), Project: tenant(proj), Policy: pol(p), Revision: revision}
}

func staged(t require.TestingT, event, p, r, parent int, selector string, ports ...int) policy.RevisionStaged {
	e := revise(t, event, 1, p, r, parent, "any", selector, ports...)
	return policy.RevisionStaged{ID: e.ID, Project: e.Project, Policy: e.Policy, Revision: e.Revision}
}

func promoted(t require.TestingT, event, p, r int, waves ...string) policy.RevisionPromoted {
	e := policy.RevisionPromoted{ID: evt(event), Project: tenant(1), Policy: pol(p), Revision: rev(r)}
	e.Gate = policy.DefaultGate
	for _, w := range waves {
		e.Waves = append(e.Waves, expr(t, w))
	}
	return e
}

func opened(event, p, r int, wave uint8) policy.WaveOpened {
	return policy.WaveOpened{ID: evt(event), Project: tenant(1), Policy: pol(p), Revision: rev(r), Wave: wave}
}

// aborting is promoted, of a rollout that goes back where it is stopped.
func aborting(t require.TestingT, event, p, r int, waves ...string) policy.RevisionPromoted {
	e := promoted(t, event, p, r, waves...)
	e.Gate.Abort = true
	return e
}

// gated is opened, by who saw that the gate was met.
func gated(event, p, r int, wave uint8) policy.WaveOpened {
	e := opened(event, p, r, wave)
	e.Gated = true
	return e
}

func stopped(event, p, r int, wave uint8) policy.RolloutStopped {
	return policy.RolloutStopped{ID: evt(event), Project: tenant(1), Policy: pol(p), Revision: rev(r), Wave: wave, Reason: "2 of 3 refused"}
}

func aborted(event, p, r int) policy.RolloutAborted {
	return policy.RolloutAborted{ID: evt(event), Project: tenant(1), Policy: pol(p), Revision: rev(r)}
}

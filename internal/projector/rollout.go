package projector

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// rollout is a revision beside the head of a policy, and how far it has come
// (docs/design.md#rollouts). A policy has at most one, the latest; it stays known
// when it has ended.
type rollout struct {
	revision uuid.UUID
	parent   uuid.UUID // the head that it was staged upon
	phase    phase
	staged   moment
	ended    moment // of a stop, or of a phase that is an end
	waves    []policy.Expr
	gate     policy.Gate
	opened   []moment // of the waves that were opened, the last one of all included
	reason   string   // of a stop or an end
	fp       compiler.Fingerprint
	selector policy.Selector
	extended bool
	body     []byte // of the event that would publish the revision, until the end
	// trial is the arm of the nodes that the waves have reached, while the rollout is
	// under way.
	trial *policyState
}

// phase is how far a rollout has come. The numbers are stored.
type phase byte

const (
	phaseStaged phase = iota + 1
	phaseUnderWay
	phaseStopped // under way, and no wave opens by itself
	phaseCompleted
	phaseAborted
)

// Phases of a rollout, as people and programs read them.
const (
	RolloutStaged    = "staged"
	RolloutUnderWay  = "progressing"
	RolloutStopped   = "stopped"
	RolloutCompleted = "completed"
	RolloutAborted   = "aborted"
)

// RolloutPhases are all of them, in the order in which a rollout comes to them.
var RolloutPhases = []string{RolloutStaged, RolloutUnderWay, RolloutStopped, RolloutCompleted, RolloutAborted}

func (p phase) String() string { return RolloutPhases[p-1] }

func (r *rollout) over() bool { return r.phase > phaseStopped }

// underWay reports whether its waves have nodes.
func (r *rollout) underWay() bool { return r.phase == phaseUnderWay || r.phase == phaseStopped }

// underWay reports whether some nodes of the policy have its head and others the
// revision of its rollout.
func (p *policyState) underWay() bool { return p.rollout != nil && p.rollout.underWay() }

// itself is the policy that an arm belongs to: what is in the maps of the state. All
// but the arm of a rollout are themselves.
func (p *policyState) itself() *policyState {
	if p.of != nil {
		return p.of
	}
	return p
}

// armOf is the arm of a policy that matches an identity; nil: none does.
func (p *policyState) armOf(i *identity) *policyState {
	p = p.itself()
	switch {
	case i == nil || p.selector == nil:
		return nil
	case p.selector.matches(i.labels):
		return p
	case p.underWay() && p.rollout.trial.selector.matches(i.labels):
		return p.rollout.trial
	}
	return nil
}

// changed is the event that last changed the policy's head or which of its nodes have
// it. Where those of a rollout went back, the head has its rules since then.
func (p *policyState) changed() moment {
	p = p.itself()
	at := moment{p.headSeq, p.headTime}
	if p.since.seq > at.seq {
		at = p.since
	}
	if p.underWay() && p.rollout.trial.since.seq > at.seq {
		at = p.rollout.trial.since
	}
	return at
}

// scope narrows a selector to the label sets that the opened waves of a rollout
// have, or to those that they do not have.
type scope struct {
	waves   []policy.Expr
	outside bool
}

// holds: no scope is all label sets.
func (s *scope) holds(l policy.Labels) bool {
	return s == nil || slices.ContainsFunc(s.waves, func(w policy.Expr) bool { return w.Matches(l) }) != s.outside
}

// key is equal for scopes that have the same label sets by the same waves.
func (s *scope) key() string {
	if s == nil {
		return ""
	}
	b := []byte{'\n', '+'}
	if s.outside {
		b[1] = '-'
	}
	for _, w := range s.waves {
		b = append(append(b, w.Canonical()...), '\n')
	}
	return string(b)
}

// cut takes from a set the identities that a scope does not have.
func (s *scope) cut(of *state, p *project, in *set) {
	if s == nil {
		return
	}
	var reached set
	for _, w := range s.waves {
		matched := of.matchSide(p, w)
		reached.join(&matched)
	}
	if s.outside {
		in.subtract(&reached)
	} else {
		in.intersect(&reached)
	}
}

// matches reports whether an identity with these labels has the rows of the
// selector's policies.
func (s *selector) matches(l policy.Labels) bool {
	if fault.Always(fault.OneSide) {
		return s.sel.Source.Matches(l) && s.scope.holds(l)
	}
	return s.sel.Matches(l) && s.scope.holds(l)
}

// key names the selector within its project.
func (s *selector) key() string { return s.sel.Key() + s.scope.key() }

// Rollout is a revision that was staged beside the head of a policy, and what became
// of it.
type Rollout struct {
	Revision uuid.UUID // the staged one
	Parent   uuid.UUID // the head that it was staged upon
	Phase    string    // one of RolloutPhases
	Waves    []policy.Expr
	Gate     policy.Gate
	// Opened are the log timestamps of the waves that were opened, in order. The one
	// after the last of Waves has all other nodes.
	Opened []time.Time
	First  uint64    // sequence of the event that opened the first; 0: none is
	Seq    uint64    // of the last event that changed it
	Time   time.Time // log timestamp of Seq
	Reason string    // why it was stopped or aborted
}

// PolicyRef names a policy.
type PolicyRef struct{ Project, Policy uuid.UUID }

// RolloutsIn are the policies with a rollout that has reached nodes, has not ended and
// is in a phase: RolloutUnderWay or RolloutStopped. They are in no order.
func RolloutsIn(v *View, phase string) (out []PolicyRef) {
	for p := range v.m.state.underWay {
		if p.rollout.phase.String() == phase {
			out = append(out, PolicyRef{p.project.id, p.id})
		}
	}
	return out
}

// UnderWay reports whether the nodes of its waves have the revision, and all others
// the head.
func (r Rollout) UnderWay() bool { return r.Phase == RolloutUnderWay || r.Phase == RolloutStopped }

// RolloutOf is the latest rollout of a policy that lives; ok is false when it never
// had one.
func RolloutOf(v *View, project, id uuid.UUID) (r Rollout, ok bool) {
	p := v.live(project, id)
	if p == nil || p.rollout == nil {
		return r, false
	}
	return p.rollout.show(), true
}

// RolloutAfter is the rollout of a revision as the event at seq left it. ok is false for a
// policy that is deleted, and for a rollout that is not known any more: one that reached
// no node, when another revision was staged since.
func RolloutAfter(v *View, project, id, revision uuid.UUID, seq uint64) (r Rollout, ok bool, err error) {
	p := v.live(project, id)
	if p == nil || p.rollout == nil {
		return r, false, nil
	}
	if of := p.rollout; of.revision == revision && of.staged.seq <= seq {
		return of.after(seq).show(), true, nil
	}
	for of, err := range rolloutsOf(v.m.db, id) {
		if err != nil {
			return r, false, err
		}
		if of.revision == revision && of.staged.seq <= seq {
			return of.after(seq).show(), true, nil
		}
	}
	return r, false, nil
}

// after is the rollout as the event at seq left it.
func (r *rollout) after(seq uint64) *rollout {
	then := *r
	then.opened = slices.DeleteFunc(slices.Clone(r.opened), func(m moment) bool { return m.seq > seq })
	if r.ended.seq > seq {
		then.phase, then.ended, then.reason = phaseUnderWay, moment{}, ""
	}
	return &then
}

func (r *rollout) show() Rollout {
	at := r.staged
	if n := len(r.opened); n > 0 {
		at = r.opened[n-1]
	}
	if r.ended.seq > at.seq {
		at = r.ended
	}
	out := Rollout{
		Revision: r.revision, Parent: r.parent, Phase: r.phase.String(),
		Waves: r.waves, Gate: r.gate, Seq: at.seq, Time: logTime(at.time), Reason: r.reason,
	}
	if len(r.opened) > 0 {
		out.First = r.opened[0].seq
	}
	for _, w := range r.opened {
		out.Opened = append(out.Opened, logTime(w.time))
	}
	return out
}

// event is the one that would publish the revision.
func (r *rollout) event() (policy.RevisionCreated, error) {
	ev, err := policy.Decode(r.body)
	rc, ok := ev.(policy.RevisionCreated)
	if err != nil || !ok {
		return rc, errRecord
	}
	return rc, nil
}

package projector

import (
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// Step is one thing that happened to a policy: a revision, a wave of a rollout or
// its end, or the policy's deletion.
type Step struct {
	Seq         uint64
	Time        time.Time
	Selector    policy.Selector
	Fingerprint compiler.Fingerprint
	Revision    uuid.UUID
	Extended    bool   // the revision has anything of ordered policy, which the fingerprint does not show
	Deleted     bool   // nothing matches; what stands above means nothing
	Trial       *Trial // what the nodes have that a rollout has reached; nil: there is none
}

// Trial is what the revision of a rollout says to the nodes of the waves that are
// open.
type Trial struct {
	Revision    uuid.UUID
	Waves       []policy.Expr // those that are open
	Selector    policy.Selector
	Fingerprint compiler.Fingerprint
	Extended    bool
}

// Reached reports whether a wave that is open has the labels. No trial has reached
// anybody.
func (t *Trial) Reached(l policy.Labels) bool {
	return t != nil && slices.ContainsFunc(t.Waves, func(w policy.Expr) bool { return w.Matches(l) })
}

// Steps lists what happened to a policy of a project, deleted or not, newest
// first, at most limit. ok is false when the project never had it.
func (v *View) Steps(project, id uuid.UUID, limit int) (steps []Step, ok bool, err error) {
	p := v.m.state.policies[id]
	if p == nil || p.project.id != project {
		return nil, false, nil
	}
	if p.deleted() {
		steps = append(steps, Step{Seq: p.ended, Time: logTime(p.headTime), Deleted: true})
	}
	it, err := v.m.db.NewIter(&pebble.IterOptions{LowerBound: revisionKey(id, 0), UpperBound: revisionKey(id, 1<<64-1)})
	if err != nil {
		return nil, false, fmt.Errorf("list revisions: %w", err)
	}
	defer it.Close()
	for more := it.Last(); more && len(steps) < limit; more = it.Prev() {
		s, err := readStep(it.Key(), it.Value())
		if err != nil {
			return nil, false, err
		}
		steps = append(steps, s)
	}
	if err := it.Error(); err != nil {
		return nil, false, fmt.Errorf("list revisions: %w", err)
	}
	if p.rollout == nil {
		return steps, true, nil
	}
	steps, err = p.withRollouts(v.m.db, steps, limit)
	return steps, true, err
}

// withRollouts puts what rollouts did between the revisions.
func (p *policyState) withRollouts(from pebble.Reader, steps []Step, limit int) ([]Step, error) {
	for r, err := range rolloutsOf(from, p.id) {
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(steps, func(s Step) bool { return s.Seq < r.opened[0].seq })
		if at < 0 || at >= limit {
			break // it is too far back, and so are those before
		}
		steps = slices.Insert(steps, at, r.steps(p, steps[at])...)
	}
	return steps[:min(len(steps), limit)], nil
}

// steps are what a rollout did, newest first: its waves, each upon the head that there
// was, and its end where all nodes went back to that.
func (r *rollout) steps(p *policyState, head Step) (moves []Step) {
	at := func(m moment, trial *Trial) {
		moves = append(moves, Step{
			Seq: m.seq, Time: logTime(m.time), Selector: head.Selector, Fingerprint: head.Fingerprint,
			Revision: head.Revision, Extended: head.Extended, Trial: trial,
		})
	}
	for n, m := range r.opened[:min(len(r.opened), len(r.waves))] {
		at(m, &Trial{Revision: r.revision, Waves: r.waves[:n+1], Selector: r.selector, Fingerprint: r.fp, Extended: r.extended})
	}
	if r.over() && r.phase != phaseCompleted && !(p.deleted() && p.ended == r.ended.seq) {
		at(r.ended, nil)
	}
	slices.Reverse(moves)
	return moves
}

func readStep(key, value []byte) (Step, error) {
	rev, err := readRevision(key, value)
	if err != nil {
		return Step{}, err
	}
	r := reader{b: value}
	return Step{
		Seq: rev.Seq, Time: logTime(r.time()),
		Selector: rev.Selector, Fingerprint: compiler.Compile(rev.InForce()).Fingerprint,
		Revision: rev.ID, Extended: rev.Content().Extended(),
	}, r.err
}

package admission

import (
	"context"
	"errors"
	"slices"
	"time"
)

// step is where a policy's part in the chain is written down; nil when nobody
// asked.
func (c *chain) step(p *Compiled) *Step {
	if !c.explain {
		return nil
	}
	s := c.newStep(p)
	s.Matched = true
	if c.steps == nil {
		c.steps = make(map[*Compiled]*Step, len(c.policies))
	}
	c.steps[p] = s
	return s
}

func (c *chain) newStep(of *Compiled) *Step {
	p := &of.policy
	return &Step{PolicyID: p.ID, PolicyName: p.Name, Level: p.Level, Priority: p.Priority, Mode: p.Mode, version: c.snapshot.Changed(p.ID), owned: p.owned()}
}

// finish writes down how a policy's part ended.
func (c *chain) finish(p *Compiled, step *Step, outcome Outcome, err error, took time.Duration) {
	if c.e.observe != nil {
		c.e.observe(&p.policy, outcome, took)
	}
	if step == nil {
		return
	}
	step.Outcome, step.Took = outcome, took
	if err != nil {
		step.Reason = err.Error()
	}
}

// blame writes down that a policy's part ended worse than it seemed.
func (c *chain) blame(id string, outcome Outcome, err error) {
	for p, step := range c.steps {
		if p.policy.ID == id {
			step.Outcome, step.Reason = outcome, err.Error()
		}
	}
}

func outcomeOf(err error) Outcome {
	var (
		rejection *Rejection
		conflict  *Conflict
		unfit     *UnfitError
	)
	switch {
	case err == nil:
		return OutcomeApplied
	case errors.As(err, &rejection):
		return OutcomeRejected
	case errors.As(err, &conflict), errors.As(err, &unfit):
		return OutcomeConflict
	case errors.Is(err, ErrTimeout):
		return OutcomeTimeout
	}
	return OutcomeError
}

// explained are the steps of all policies, those without a part included.
func (c *chain) explained() []Step {
	matched := make(map[*Compiled]bool, len(c.policies))
	for _, p := range c.policies {
		matched[p] = true
	}
	all := c.snapshot.All()
	steps := make([]Step, len(all))
	for i, p := range all {
		s := c.steps[p]
		switch {
		case s != nil:
		case matched[p]:
			s = c.newStep(p)
			s.Matched, s.Outcome = true, OutcomeNotRun
			s.Reason = "the chain had ended"
		default:
			s = c.newStep(p)
			s.Outcome, s.Reason = OutcomeUnmatched, p.policy.mismatch(&c.matching.now)
		}
		s.MatchedAfter = c.matching.after[p]
		steps[i] = *s
	}
	return steps
}

// rehearsal is a shadow policy and the chain as it was when its turn came.
type rehearsal struct {
	policy *Compiled
	trial  *chain
}

func (c *chain) rehearsal(p *Compiled) rehearsal {
	trial := *c
	trial.constraints = c.constraints.clone()
	trial.provider.list = append([]restriction(nil), c.provider.list...)
	trial.search = newSearch()
	trial.shadows, trial.steps, trial.patches, trial.judges = nil, nil, nil, nil
	trial.policies, trial.matching = slices.Clone(c.policies), matching{} // a rehearsal brings nobody in
	return rehearsal{p, &trial}
}

// rehearse evaluates the shadow policies, each on a chain of its own, and lets
// none of them count.
func (c *chain) rehearse(ctx context.Context, w *watch) error {
	for _, r := range c.shadows {
		if err := w.stopped(); err != nil {
			return err
		}
		began := time.Now()
		step := c.step(r.policy)
		if step == nil {
			step = c.newStep(r.policy)
			step.Matched = true
		}
		outcome, err := r.trial.apply(ctx, w, r.policy, step)
		c.finish(r.policy, step, outcome, err, time.Since(began))
		c.rehearsed = append(c.rehearsed, *step)
	}
	return nil
}

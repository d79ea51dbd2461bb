package admission

import (
	"context"
	"errors"
	"time"
)

// chain is one request on its way through the policies.
type chain struct {
	e        *Engine
	snapshot *Snapshot
	request  *Request
	policies []*Compiled // that match or matched, in order
	matching matching
	held     []*program // so that they stay until the chain ends
	explain  bool

	payload     map[string]any // now
	size        int            // of the payload, at most
	input       inputs
	constraints constraints
	search      *search // of constraints that exclude each other
	provider    provider
	patched     bool
	patches     []Patch     // where the request says what it can have
	unfit       *UnfitError // the payload does not fit, since this
	judges      []Judge
	steps       map[*Compiled]*Step
	shadows     []rehearsal
	rehearsed   []Step // what came of them
}

// run asks one policy after the other.
func (c *chain) run(ctx context.Context, w *watch) error {
	c.input.begin(c.request)
	for p := c.next(); p != nil; p = c.next() {
		if p.policy.Mode == Shadow {
			c.shadows = append(c.shadows, c.rehearsal(p))
			continue
		}
		began := time.Now()
		step := c.step(p)
		outcome, err := c.apply(ctx, w, p, step)
		if stopped := w.stopped(); stopped != nil && stopped != errChainTime {
			return stopped
		}
		c.finish(p, step, outcome, err, time.Since(began))
		c.judged(p, outcome)
		if err != nil {
			return err
		}
	}
	if c.unfit != nil {
		c.blame(c.unfit.PolicyID, OutcomeConflict, c.unfit)
		return c.unfit
	}
	err := c.final(w)
	if err != nil {
		if by, _ := blamed(err); by != nil {
			c.blame(by.ID, outcomeOf(err), err)
		}
	}
	return err
}

// apply evaluates one policy and lets its decision count.
func (c *chain) apply(ctx context.Context, w *watch, p *Compiled, step *Step) (Outcome, error) {
	made, err := c.program(ctx, w, p)
	if err != nil {
		return outcomeOf(err), err
	}
	if made.query == nil {
		if step != nil {
			step.Reason = p.code.judged.Load().neverAsked
		}
		return OutcomeNoOpinion, nil
	}
	answer, size, err := c.e.ask(ctx, w, p, made, c.request.asker(), c.input.of(c, p.dialect()))
	if err != nil {
		return outcomeOf(err), err
	}
	if answer == nil {
		return OutcomeNoOpinion, nil
	}
	if step != nil {
		step.Decision = answer
	}
	d, err := p.dialect().parse(answer)
	if err == nil {
		d.size = size
		err = c.decide(p, d, step)
	} else {
		var field *fieldError
		errors.As(err, &field)
		err = p.failed(CodeInvalidDecision, field.field, "%s", field.message)
	}
	return outcomeOf(err), err
}

// decide lets a decision count, in the order of the specification: constraints,
// patch, provider.
func (c *chain) decide(p *Compiled, d *decision, step *Step) error {
	if d.reject {
		return &Rejection{PolicyID: p.policy.ID, PolicyName: p.policy.Name, Reason: d.reason}
	}
	if n := keys(d.patch); n > c.e.limits.PatchKeys {
		return p.failed(CodeTooLarge, "patch", "has %d keys, more than %d", n, c.e.limits.PatchKeys)
	}
	before, after := c.payload, c.payload
	var dropped []string
	if len(d.patch) > 0 {
		after, dropped = c.fit(p, d)
		if c.size += d.size; c.size > c.e.limits.PayloadBytes && !c.measure(after) {
			return p.failed(CodeTooLarge, "patch", "makes the payload larger than %d bytes", c.e.limits.PayloadBytes)
		}
		if hidden := c.hides(after, d.patch); hidden != nil {
			return p.failed(CodeInvalidDecision, "patch", "%s %s; policies are matched by it", hidden.Pointer, hidden.Message)
		}
	}
	if err := c.constrain(p, d, after, step); err != nil {
		return err
	}
	if len(d.patch) > 0 {
		broken, err := c.constraints.afterPatch(before, after, d.patch, c.size)
		if err != nil {
			return err
		}
		if len(broken) > 0 {
			return p.conflict(broken)
		}
		c.payload, c.patched = after, true
		c.input.patch(after, d.patch)
		c.rematch(p, d.patch)
	}
	c.patchedBy(p, before, after, dropped, step)
	return c.choose(p, d, step)
}

// measure takes the size of a payload as it is, where what policies answered adds up to more
// than a payload may have: what one replaces of another counts no longer, and its reasons
// and constraints never did. It is false when the payload is too large.
func (c *chain) measure(payload map[string]any) bool {
	m := meter{c.e.limits.PayloadBytes, c.e.limits.Depth}
	if m.json(payload) != nil {
		return false
	}
	c.size = c.e.limits.PayloadBytes - m.bytes
	return true
}

func (c *Compiled) conflict(violations []Violation) *Conflict {
	return &Conflict{PolicyID: c.policy.ID, PolicyName: c.policy.Name, Violations: violations}
}

// choose restricts the provider and chooses it, as the decision says.
func (c *chain) choose(p *Compiled, d *decision, step *Step) error {
	patterns, err := c.e.compilePatterns(d.patterns)
	if err != nil {
		return p.failed(CodeInvalidConstraint, p.dialect().restrictionField(), "%v", err)
	}
	if broken := c.provider.restrict(restriction{p, d.allow, patterns}); len(broken) > 0 {
		return p.conflict(broken)
	}
	c.input.provider = nil
	if d.provider == "" {
		return nil
	}
	if broken := c.provider.broken(d.provider); len(broken) > 0 {
		return p.conflict(broken)
	}
	c.provider.value, c.provider.by = d.provider, p
	if step != nil {
		step.Provider = d.provider
	}
	return nil
}

// keys counts the keys of a patch at all depths.
func keys(patch map[string]any) int {
	n := len(patch)
	for _, v := range patch {
		if inner, ok := v.(map[string]any); ok {
			n += keys(inner)
		}
	}
	return n
}

func (c *chain) result(err error) Result {
	r := Result{SnapshotVersion: c.snapshot.version, Judges: c.judges}
	if c.explain {
		r.Steps = c.explained()
	}
	if err != nil {
		return r
	}
	r.Payload, r.ServiceProvider, r.Status, r.Patches = c.payload, c.provider.state(), Approved, c.patches
	if c.patched && !equal(c.request.Payload, c.payload) {
		r.Status = Modified
	}
	return r
}

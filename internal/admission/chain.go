package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
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
	return c.final(w)
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
		if c.size += d.size; c.size > c.e.limits.PayloadBytes {
			return p.failed(CodeTooLarge, "patch", "makes the payload larger than %d bytes", c.e.limits.PayloadBytes)
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

func (c *Compiled) conflict(violations []Violation) *Conflict {
	return &Conflict{PolicyID: c.policy.ID, PolicyName: c.policy.Name, Violations: violations}
}

// constrain adds the constraints of a decision.
func (c *chain) constrain(p *Compiled, d *decision, after map[string]any, step *Step) error {
	if n := len(d.constraints); n > c.e.limits.ConstraintKeys {
		return p.failed(CodeTooLarge, "constraints", "are %d, more than %d", n, c.e.limits.ConstraintKeys)
	}
	var violations []Violation
	for _, at := range sortedKeys(d.constraints) {
		where, err := parsePath(at)
		if err != nil {
			return p.failed(CodeInvalidConstraint, "constraints", "%v", err)
		}
		source, ok := d.constraints[at].(map[string]any)
		if !ok {
			return p.failed(CodeInvalidConstraint, "constraints", "%s: is %s, not a schema", at, kindOf(d.constraints[at]))
		}
		_, settled := source["mode"]
		if source, err = settle(source, where, after); err != nil {
			return p.failed(CodeInvalidConstraint, "constraints", "%s: %v", at, err)
		}
		s, err := c.e.schemaOf(source)
		if err != nil {
			return p.failed(CodeInvalidConstraint, "constraints", "%s%s", at, pointed(err))
		}
		if !settled {
			if reason := s.unmetAlone(c.search); reason != "" {
				return p.failed(CodeInvalidConstraint, "constraints", "%s: nothing meets it: %s", at, reason)
			}
		}
		violations = append(violations, c.constraints.add(where, constraint{p, source, s, settled}, c.search)...)
		if step != nil {
			if step.Constraints == nil {
				step.Constraints = map[string]any{}
			}
			step.Constraints[where.String()] = source
		}
	}
	if len(violations) > 0 {
		return p.conflict(violations)
	}
	if len(d.constraints) > 0 {
		c.input.constraints = nil
	}
	return nil
}

// pointed writes an error with the place in the schema where it was found.
func pointed(err error) string {
	var l *located
	if errors.As(err, &l) {
		return " at " + l.path.pointer() + ": " + err.Error()
	}
	return ": " + err.Error()
}

// settle reads {"mode": "immutable"}, the specification's word: what the path
// holds after the patch is what it holds for good, be it nothing.
func settle(source map[string]any, where path, after map[string]any) (map[string]any, error) {
	mode, ok := source["mode"]
	if !ok {
		return source, nil
	}
	if mode != "immutable" {
		return nil, fmt.Errorf("mode is %s; the only mode is \"immutable\"", brief(mode))
	}
	settled := maps.Clone(source)
	delete(settled, "mode")
	if v, has := where.in(after); has {
		settled["const"] = v
	} else {
		settled["not"] = map[string]any{}
	}
	return settled, nil
}

// schemaOf compiles a schema, or finds it compiled.
func (e *Engine) schemaOf(source map[string]any) (*schema, error) {
	text, err := canonical(source)
	if err != nil {
		return nil, err
	}
	return e.schemas.get(text, func() (*schema, error) { return compileSchema(source, e.limits.Depth) })
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

// final holds what comes out against everything that was demanded on the way.
// What the request itself brought is rejected by the policy that constrains it;
// what a policy made of it is that policy's conflict.
func (c *chain) final(w *watch) error {
	if err := w.stopped(); err != nil {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	var violations []Violation
	var first *Compiled
	brought := true
	for h := range c.constraints.all {
		v, ok := h.path.in(c.payload)
		if !ok {
			continue
		}
		broken, err := h.broken(v, c.size)
		if err != nil {
			return err
		}
		if len(broken) == 0 {
			continue
		}
		violations = append(violations, broken...)
		original, had := h.path.in(c.request.Payload)
		brought = brought && had && equal(original, v)
		first = c.first(first, broken)
	}
	if broken := c.provider.broken(c.provider.value); len(broken) > 0 {
		violations = append(violations, broken...)
		brought = false
		first = c.first(first, broken)
	}
	switch {
	case first == nil:
		return nil
	case brought:
		return &Rejection{PolicyID: first.policy.ID, PolicyName: first.policy.Name, Reason: texts(violations), Violations: violations}
	}
	return first.conflict(violations)
}

// first is the earliest policy in the chain among those that set the broken
// constraints and the one found before.
func (c *chain) first(found *Compiled, broken []Violation) *Compiled {
	for _, v := range broken {
		for _, p := range c.policies {
			if p.policy.ID == v.PolicyID && (found == nil || inChain(p, found) < 0) {
				found = p
			}
		}
	}
	return found
}

func texts(violations []Violation) string {
	list := make([]string, len(violations))
	for i, v := range violations {
		list[i] = v.String()
	}
	return strings.Join(list, "; ")
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

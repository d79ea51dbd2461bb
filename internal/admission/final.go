package admission

import (
	"fmt"
	"strings"
)

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
		if had && brought && !equal(original, v) {
			made, err := h.broken(v, c.size, original)
			if err != nil {
				return err
			}
			had = len(made) == 0
		}
		brought = brought && had
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

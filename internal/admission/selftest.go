package admission

import (
	"context"
	"fmt"
	"strings"
)

// Test is a case that a policy carries: it must pass before the policy goes
// live. The policy is evaluated alone, as if it matched.
type Test struct {
	Name    string
	Request Request
	// Status is what must come out: APPROVED or MODIFIED, or the [Outcome] of
	// the policy that refused, in any case.
	Status string
	// Reason, if set, must be part of what a refusal says.
	Reason string
	// Payload, if set, is the payload that must come out, numbers by value.
	Payload map[string]any
	// Provider, if set, is the provider that must be chosen.
	Provider string
}

// TestResult is a test that was run; Failure is empty when it passed.
type TestResult struct {
	Name    string `json:"name"`
	Failure string `json:"failure,omitempty"`
}

// Test runs the tests that a policy carries. Those that ctx leaves no time for
// fail.
func (e *Engine) Test(ctx context.Context, c *Compiled) []TestResult {
	results := make([]TestResult, len(c.policy.Tests))
	for i, t := range c.policy.Tests {
		if err := ctx.Err(); err != nil {
			results[i] = TestResult{t.Name, "is not run: " + err.Error()}
			continue
		}
		results[i] = TestResult{t.Name, t.run(ctx, e, c.alone())}
	}
	return results
}

// WithTests is the policy with other tests to carry.
func (c *Compiled) WithTests(tests []Test) *Compiled {
	p := c.policy
	p.Tests = tests
	return c.as(p)
}

// as is what was compiled, as another policy of the same code.
func (c *Compiled) as(p Policy) *Compiled {
	return newCompiled(p, c.code)
}

// alone is a set of this policy, which every request matches and which counts.
func (c *Compiled) alone() *Snapshot {
	p := c.policy
	p.ServiceType, p.LabelSelector, p.TenantID, p.UserID, p.Enabled, p.Mode = "", nil, "", "", true, Enforce
	return NewSnapshot(0, c.as(p))
}

func (t *Test) run(ctx context.Context, e *Engine, s *Snapshot) (failure string) {
	r, err := e.Evaluate(ctx, s, t.Request, Options{})
	status, said := string(r.Status), ""
	if err != nil {
		status, said = string(outcomeOf(err)), err.Error()
	}
	switch {
	case !strings.EqualFold(status, t.Status):
		if said != "" {
			said = ": " + said
		}
		return fmt.Sprintf("is %s, not %s%s", status, t.Status, said)
	case !strings.Contains(said, t.Reason):
		return fmt.Sprintf("the refusal does not say %q: %s", t.Reason, said)
	case err == nil && t.Payload != nil && !equal(t.Payload, r.Payload):
		return fmt.Sprintf("the payload is %s, not %s", brief(r.Payload), brief(t.Payload))
	case t.Provider != "" && t.Provider != r.ServiceProvider.Value:
		return fmt.Sprintf("the provider is %q, not %q", r.ServiceProvider.Value, t.Provider)
	}
	return ""
}

package admission

import "context"

// Codes of a [Warning].
const (
	WarnNeverAsked     = "never_asked"      // no rule of the name that is asked
	WarnSuspended      = "suspended"        // it runs out of time for some who ask
	WarnDoesNotCompile = "does_not_compile" // what it matches fails
)

// Warning is what is wrong with a policy that is in force.
type Warning struct {
	Code   string
	Detail string
}

// Warnings are what the author of a policy should know. The code is compiled for that, if
// nothing is known of it yet; there are none of it when ctx ends before.
func (c *Compiled) Warnings(ctx context.Context) []Warning {
	switch j := c.judgement(ctx); {
	case j == nil:
	case j.broken != nil:
		return []Warning{{WarnDoesNotCompile, "every request that it matches fails: " + j.broken.Faults[0].String()}}
	case j.neverAsked != "":
		return []Warning{{WarnNeverAsked, j.neverAsked}}
	}
	if reason := c.breaker.warning(); reason != "" {
		return []Warning{{WarnSuspended, reason}}
	}
	return nil
}

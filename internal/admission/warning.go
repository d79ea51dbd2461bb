package admission

import "fmt"

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

// Warnings are what the author of a policy should know.
func (c *Compiled) Warnings() []Warning {
	switch {
	case c.broken != nil:
		return []Warning{{WarnDoesNotCompile, "every request that it matches fails: " + c.broken.Faults[0].String()}}
	case c.query == nil:
		return []Warning{{WarnNeverAsked, c.neverAsked()}}
	}
	if reason := c.breaker.warning(); reason != "" {
		return []Warning{{WarnSuspended, reason}}
	}
	return nil
}

// neverAsked says why a policy without an entry point has no say.
func (c *Compiled) neverAsked() string {
	module := c.compiler.Modules["policy"]
	text := fmt.Sprintf("in %v the rule %s is asked, and the code has none: it is never asked", module.Package, c.dialect.entry)
	if c.dialect == inherited {
		text += "; the rule result is asked in a package dcm.policy.<name>"
	}
	return text
}

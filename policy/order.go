package policy

import (
	"fmt"
	"slices"
)

// Tier is the coarsest part of the order of rules: everything in a tier is asked
// before anything in the next. Empty: not set.
type Tier string

// The closed set of tiers, in the order in which they are asked.
const (
	Admin    Tier = "admin"
	Normal   Tier = "normal"
	Baseline Tier = "baseline"
)

// MaxPriority is the highest priority, that is the last to be asked.
const MaxPriority = 1<<24 - 1

// DefaultPriority is that of a policy that sets none.
const DefaultPriority = 1000

// Priority is a place within a tier, 0..MaxPriority, lower first.
type Priority struct {
	N   uint32
	Set bool
}

// Order is where a revision's rules stand among those of other policies
// (docs/design.md#ordered-policy), and whether they are in force.
type Order struct {
	Tier     Tier
	Priority Priority
	// NoDefaultDeny is default_deny: false. The rules then decide what they match
	// and leave what nothing matches as it was.
	NoDefaultDeny bool
	// Audit is mode: audit. No rule of the revision is in force; nodes that can
	// count what it would deny if it were.
	Audit bool
}

// Ordered reports whether the revision sets tier or priority. Its rules then
// decide in the author's order; else they are one level, by class.
func (o Order) Ordered() bool { return o.Tier != "" || o.Priority.Set }

// Level is the tier and the priority, what is not set being (normal, 1000).
func (o Order) Level() (Tier, uint32) {
	tier, priority := o.Tier, uint32(DefaultPriority)
	if tier == "" {
		tier = Normal
	}
	if o.Priority.Set {
		priority = o.Priority.N
	}
	return tier, priority
}

// Content is what the revision says.
func (r Revision) Content() Content { return Content{r.Selector, r.Order, r.Rules} }

// InForce are the rules that nodes enforce: those of the revision, and none of one
// in audit mode.
func (r Revision) InForce() []Rule {
	if r.Order.Audit {
		return nil
	}
	return r.Rules
}

// Extended reports whether the content has anything of ordered policy. A
// binary from before that section cannot read it.
func (c Content) Extended() bool {
	if c.Order != (Order{}) {
		return true
	}
	for _, r := range c.Rules {
		if !r.Plain() {
			return true
		}
	}
	return false
}

// directed reports whether a rule says its direction.
func (c Content) directed() bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Direction != "" })
}

// Warnings are what may stand and is likely not meant, with pointers into the
// content.
func (c Content) Warnings() Violations {
	var found Violations
	tier, _ := c.Order.Level()
	if last := len(c.Rules) - 1; tier == Baseline && last >= 0 && c.Rules[last].Action == Pass {
		found = append(found, Violation{
			fmt.Sprintf("/rules/%d/action", last), CodePassIntoNothing,
			"there is no tier below baseline and no rule below this one: what it passes gets the default; write allow or deny",
		})
	}
	return found
}

func readTier(r *reader) Tier {
	if r.null() {
		return ""
	}
	return readOneOf(r, CodeUnknownTier, "is not a tier; use admin, normal or baseline", Admin, Normal, Baseline)
}

func readPriority(r *reader) Priority {
	if r.null() {
		return Priority{}
	}
	n, ok := r.number(0, MaxPriority, CodePriorityOutOfRange,
		fmt.Sprintf("a priority; they are 0 to %d, lower first", MaxPriority))
	return Priority{uint32(n), ok}
}

// readAudit reads enforce or audit; null is enforce.
func readAudit(r *reader) (audit bool) {
	if r.null() {
		return false
	}
	return readOneOf(r, CodeUnknownMode, "is not a mode; use enforce or audit", Enforce, Audit) == Audit
}

// readDefaultDeny reads a boolean; null and what is none count as true.
func readDefaultDeny(r *reader) bool {
	if r.null() || r.ended {
		return true
	}
	deny := true
	if kind := r.dec.PeekKind(); kind == 't' || kind == 'f' {
		deny = kind == 't'
		r.skip()
		return deny
	}
	r.expect('t', "a boolean")
	return deny
}

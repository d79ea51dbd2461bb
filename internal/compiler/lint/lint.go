// Package lint warns of what a policy may say and likely does not mean. A warning
// has a stable code and a JSON pointer into the policy; docs/lint.md lists them.
//
// A rule reported as shadowed is never the one that decides: the package errs on
// the side of silence.
package lint

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Codes of warnings; policy.CodePassIntoNothing is one more.
const (
	CodeShadowed     = "rule_shadowed"
	CodeEqualLevel   = "equal_priority_overlap"
	CodeOrderFlipped = "order_flipped"
	CodeIPv6         = "ipv6_refused"
	CodeLogSkipped   = "log_skipped"
)

// Warning is one of a revision. Policy is the slug of the other policy that it is
// about; empty when it is about this revision alone.
type Warning struct {
	policy.Violation
	Policy string
}

// Content lints one revision. A rule has at most one warning of each code, which
// names the first other rule concerned. Warnings are ordered by rule, then code.
func Content(c policy.Content) []Warning {
	l := linter{ordered: c.Order.Ordered(), rules: c.Rules, sides: make([]sides, len(c.Rules))}
	for i, r := range c.Rules {
		l.sides[i] = newSides(r)
	}
	l.shadowed()
	for j := range l.rules {
		l.overlaps(j)
		l.refused(j)
		l.skipped(j)
	}
	l.found = append(l.found, warnings(c)...)
	slices.SortStableFunc(l.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), strings.Compare(a.Code, b.Code))
	})
	return warningsOf(l.found)
}

// warnings are those that package policy knows; they are about the last rule.
func warnings(c policy.Content) (all []found) {
	for _, v := range c.Warnings() {
		all = append(all, found{len(c.Rules) - 1, Warning{Violation: v}})
	}
	return all
}

type found struct {
	rule int
	Warning
}

func warningsOf(all []found) (out []Warning) {
	for _, f := range all {
		out = append(out, f.Warning)
	}
	return out
}

type linter struct {
	ordered bool
	rules   []policy.Rule
	sides   []sides
	found   []found
}

func (l *linter) warn(rule int, code, format string, args ...any) {
	l.found = append(l.found, found{rule, Warning{Violation: policy.Violation{
		Pointer: fmt.Sprintf("/rules/%d", rule), Code: code, Detail: fmt.Sprintf(format, args...),
	}}})
}

// sides are both ends of a rule.
type sides struct{ source, destination side }

// side is a prefix, or clauses that must all hold.
type side struct {
	cidr    netip.Prefix
	clauses []string // sorted canonical texts
}

func newSides(r policy.Rule) sides {
	return sides{newSide(r.Source, r.SourceSelector), newSide(r.Destination, r.DestinationSelector)}
}

func newSide(cidr netip.Prefix, selector string) side {
	s := side{cidr: cidr}
	if e, _ := policy.ParseExpr(selector); selector != "" {
		for i := range e {
			s.clauses = append(s.clauses, e[i:i+1].Canonical())
		}
		slices.Sort(s.clauses)
		s.clauses = slices.Compact(s.clauses)
	}
	return s
}

// covers reports whether s holds for every end that o holds for.
func (s side) covers(o side) bool {
	if s.cidr.IsValid() || o.cidr.IsValid() {
		return s.cidr.IsValid() && o.cidr.IsValid() && s.cidr.Bits() <= o.cidr.Bits() && s.cidr.Contains(o.cidr.Addr())
	}
	return within(s.clauses, o.clauses)
}

// within reports whether all of some clauses are among others; both are sorted, each once.
func within(some, others []string) bool {
	if len(some) > len(others) {
		return false
	}
	for _, c := range some {
		for len(others) > 0 && others[0] < c {
			others = others[1:]
		}
		if len(others) == 0 || others[0] != c {
			return false
		}
	}
	return true
}

// meets reports whether an end may be in both. Two selectors may, unless
// something is said to be there and not to be; a selector and a prefix always.
func (s side) meets(o side) bool {
	return !s.cidr.IsValid() || !o.cidr.IsValid() || s.cidr.Overlaps(o.cidr)
}

func (s sides) covers(o sides) bool {
	return s.source.covers(o.source) && s.destination.covers(o.destination)
}

func (s sides) meets(o sides) bool {
	return s.source.meets(o.source) && s.destination.meets(o.destination)
}

// covers reports whether protocol, ports and direction of r hold whatever those of o
// do.
func covers(r, o policy.Rule) bool {
	return (r.Direction == "" || r.Direction == o.Direction) && coversTraffic(r, o)
}

func coversTraffic(r, o policy.Rule) bool {
	return r.Protocol == policy.Any || r.Protocol == o.Protocol &&
		(!r.Protocol.HasPorts() || r.Ports.From <= o.Ports.From && o.Ports.To <= r.Ports.To)
}

// meet reports whether one flow may have protocol and port of both where both are
// asked: rules of different directions are asked at different ends.
func meet(r, o policy.Rule) bool {
	return (r.AskedAt(o.Direction) || o.Direction == "") && meetTraffic(r, o)
}

func meetTraffic(r, o policy.Rule) bool {
	return r.Protocol == policy.Any || o.Protocol == policy.Any || r.Protocol == o.Protocol &&
		(!r.Protocol.HasPorts() || r.Ports.From <= o.Ports.To && o.Ports.From <= r.Ports.To)
}

// class is the place of a rule among those of one level, lower first.
func class(r policy.Rule) int {
	switch r.Action {
	case policy.Deny:
		return 0
	case policy.Redirect:
		if r.ListenerPriority == 0 {
			return 1 + policy.MaxListenerPriority
		}
		return int(r.ListenerPriority)
	case policy.Allow:
		return 2 + policy.MaxListenerPriority
	}
	return 3 + policy.MaxListenerPriority
}

// shadowed goes down the rules in the order in which they decide.
func (l *linter) shadowed() {
	order := make([]int, 0, len(l.rules))
	for i, r := range l.rules {
		if r.Action != policy.Log {
			order = append(order, i)
		}
	}
	if !l.ordered {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(class(l.rules[a]), class(l.rules[b])) })
	}
	for at, j := range order {
		for _, i := range order[:at] {
			if covers(l.rules[i], l.rules[j]) && l.sides[i].covers(l.sides[j]) {
				l.warn(j, CodeShadowed, "it never decides: rule %d (%s) goes before it and matches all that it does; %s", i, l.rules[i].Action, l.unshadow(i, j))
				break
			}
		}
	}
}

// unshadow says how rule j, which rule i shadows, comes to decide.
func (l *linter) unshadow(i, j int) string {
	if l.ordered || class(l.rules[i]) == class(l.rules[j]) {
		return "remove one, or write this one first"
	}
	return "remove one, or set a priority, with which rules are tried in the order in which they are written, and write this one first"
}

// overlaps looks for the first earlier rule of an unordered policy that says
// something else of the same traffic: the first that is tried after all, and the first of
// the others.
func (l *linter) overlaps(j int) {
	r := l.rules[j]
	if l.ordered || r.Action == policy.Log {
		return
	}
	flipped, equal := false, false
	for i := 0; i < j && !(flipped && equal); i++ {
		o := l.rules[i]
		if o.Action == policy.Log || o.Action == r.Action || !meet(o, r) || !l.sides[i].meets(l.sides[j]) {
			continue
		}
		switch behind := class(r) < class(o); {
		case behind && !flipped:
			flipped = true
			l.warn(j, CodeOrderFlipped, "it is written behind rule %d (%s) and tried before it: in a policy without a priority %s goes before %s, whatever the order; set a priority to have rules tried in the order in which they are written, or write this one first", i, o.Action, r.Action, o.Action)
		case !behind && !equal:
			equal = true
			l.warn(j, CodeEqualLevel, "it overlaps rule %d (%s) and stands at the same priority: %s goes first, whatever the order; set a priority to have rules tried in the order in which they are written", i, o.Action, first(o, r))
		}
	}
}

func first(a, b policy.Rule) policy.Action {
	if class(b) < class(a) {
		return b.Action
	}
	return a.Action
}

// refused looks for what makes the field's agents refuse a node's whole set.
func (l *linter) refused(j int) {
	r := l.rules[j]
	if r.Plain() && r.Source.Addr().Is6() {
		l.warn(j, CodeIPv6, "%s is IPv6: agents that know IPv4 alone refuse every rule of a node that gets this one; put it into a policy of its own, for nodes whose agents know IPv6", r.Source)
	}
}

// skipped warns of rules that agents of the node contract pass over.
func (l *linter) skipped(j int) {
	if r := l.rules[j]; r.Action == policy.Log && r.Plain() {
		l.warn(j, CodeLogSkipped, "agents that enforce with nftables skip log rules, so it logs nothing there; remove it if the policy is for such agents alone")
	}
}

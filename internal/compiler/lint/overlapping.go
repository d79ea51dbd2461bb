package lint

import (
	"cmp"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Policy is a policy of a project, by what its author calls it.
type Policy struct {
	Slug string
	policy.Content
	source, destination policy.Expr // of the selector, by key
	ends                []end
	kinds               []*end // of rules that differ in no more than in which flows they match, one
	passes              []*end
}

// NewPolicy makes ready what Overlapping compares, once for as many as it is beside.
func NewPolicy(slug string, c policy.Content) *Policy {
	p := &Policy{Slug: slug, Content: c, source: byKey(c.Selector.Source), destination: byKey(c.Selector.Destination), ends: ends(c)}
	seen := map[kind]bool{}
	for i := range p.ends {
		e := &p.ends[i]
		if e.Action == policy.Pass {
			p.passes = append(p.passes, e)
		}
		if k := kindOf(e); e.Action != policy.Log && !seen[k] {
			seen[k] = true
			p.kinds = append(p.kinds, e)
		}
	}
	return p
}

// kind is what a rule says of the flows that it matches, and where it stands in its policy.
type kind struct {
	step             int
	action           policy.Action
	listenerPriority uint8
	proxyPort        uint16
	auth             policy.Auth
}

func kindOf(e *end) kind { return kind{e.step, e.Action, e.ListenerPriority, e.ProxyPort, e.Auth} }

// disagree reports whether there can be a warning about two policies, whichever flows
// their rules match. Most policies of a project allow at one priority, and do not.
func (c *Policy) disagree(o *Policy) bool {
	for _, mine := range c.kinds {
		for _, their := range o.kinds {
			x := conflict{mine: mine, their: their, before: compareEnds(mine, their)}
			if x.before != 0 || x.redirects() || x.auth() {
				return true
			}
		}
	}
	return false
}

// CodeShadows is of a rule that keeps one of another policy from ever deciding.
const CodeShadows = "rule_shadows"

// Overlapping compares one revision with other policies and warns of rules of c that
// never decide because of another policy, of rules of other policies that never
// decide because of c, and of rules that have the same priority and different
// actions. It skips c itself, and policies in audit mode unless c is in that mode, too:
// no rule of theirs is in force beside it. A rule has at most one warning of each code. Every
// rule is compared with every other, which can take long: Overlapping calls proceed,
// unless it is nil, again and again, and stops with the error that it returns.
func Overlapping(c *Policy, others []*Policy, proceed func() error) ([]Warning, error) {
	if proceed == nil {
		proceed = func() error { return nil }
	}
	if !c.Order.Audit {
		others = slices.DeleteFunc(slices.Clone(others), func(o *Policy) bool { return o.Order.Audit })
	}
	b := overlapping{mine: c.ends, warned: make([]warned, len(c.ends)), steps: stepsAsk, policy: c, others: others}
	for _, o := range others {
		if o != c && c.disagree(o) && meets(c.source, o.source) && meets(c.destination, o.destination) {
			if err := b.other(o, proceed); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(b.found, func(x, y found) int {
		return cmp.Or(cmp.Compare(x.rule, y.rule), strings.Compare(x.Code, y.Code))
	})
	return warningsOf(b.found), nil
}

type overlapping struct {
	linter
	mine   []end
	warned []warned // by rule of mine
	steps  int      // since proceed was asked
	policy *Policy  // whose rules are mine
	others []*Policy
}

// warned are the codes of which a rule has a warning.
type warned struct{ shadowed, shadows, equal, redirects, auth bool }

// end is a rule where it stands among those of a node.
type end struct {
	policy.Rule
	sides       sides
	node, other policy.Expr // what the policy asks of source and destination, by key
	long        int         // their clauses and values
	tier        int
	priority    uint32
	step        int
}

func ends(c policy.Content) []end {
	tier, priority := c.Order.Level()
	out := make([]end, len(c.Rules))
	for i, r := range c.Rules {
		out[i] = end{Rule: r, sides: newSides(r), tier: slices.Index(tiers, tier), priority: priority}
		out[i].sides.source.among(c.Selector.Source)
		out[i].sides.destination.among(c.Selector.Destination)
		out[i].node, out[i].other = whole(c.Selector.Source, r.SourceSelector), whole(c.Selector.Destination, r.DestinationSelector)
		out[i].long = long(out[i].node) + long(out[i].other)
		if c.Order.Ordered() {
			out[i].step = i
		}
	}
	return out
}

var tiers = []policy.Tier{policy.Admin, policy.Normal, policy.Baseline}

// among adds what the policy asks of the side.
func (s *side) among(e policy.Expr) {
	for i := range e {
		s.clauses = append(s.clauses, e[i:i+1].Canonical())
	}
	slices.Sort(s.clauses)
	s.clauses = slices.Compact(s.clauses)
}

// holds is covers for sides of two policies: kind, prefix and clauses.
func (s side) holds(o side) bool {
	if s.cidr.IsValid() != o.cidr.IsValid() || s.cidr.IsValid() && !(s.cidr.Bits() <= o.cidr.Bits() && s.cidr.Contains(o.cidr.Addr())) {
		return false
	}
	return within(s.clauses, o.clauses)
}

func whole(side policy.Expr, own string) policy.Expr {
	e, _ := policy.ParseExpr(own)
	return byKey(append(slices.Clone(side), e...))
}

// byKey is e in the order of its keys.
func byKey(e policy.Expr) policy.Expr {
	return slices.SortedStableFunc(slices.Values(e), func(a, b policy.Clause) int { return strings.Compare(a.Key, b.Key) })
}

func long(e policy.Expr) (n int) {
	for _, c := range e {
		n += 1 + len(c.Values)
	}
	return n
}

// other compares every rule with every rule of another policy.
func (b *overlapping) other(o *Policy, proceed func() error) error {
	for i := range b.mine {
		for j := range o.ends {
			if b.steps += b.mine[i].steps(&o.ends[j]); b.steps > stepsAsk {
				if err := proceed(); err != nil {
					return err
				}
				b.steps = 0
			}
			b.pair(i, &b.mine[i], j, &o.ends[j], o.Slug)
		}
	}
	return nil
}

// stepsAsk is how many steps of comparing are made before proceed is asked: about a
// millisecond.
const stepsAsk = 1 << 15

// steps are those that it takes to compare two rules. Those of few clauses take one.
func (e *end) steps(o *end) int { return 1 + e.long*o.long/64 }

// warn records a warning of a rule of mine that is about another policy.
func (b *overlapping) warn(rule int, about, code, format string, args ...any) {
	b.linter.warn(rule, code, format, args...)
	b.found[len(b.found)-1].Policy = about
}

func (b *overlapping) pair(i int, mine *end, j int, their *end, slug string) {
	if mine.Action == policy.Log || their.Action == policy.Log {
		return
	}
	has, before := &b.warned[i], compareEnds(mine, their)
	switch {
	case before > 0 && !has.shadowed && b.hides(their, mine):
		has.shadowed = true
		b.warn(i, slug, CodeShadowed, "it never decides: rule %d (%s) of policy %s goes before it and matches all that it does; remove it, or change their %s", j, their.Action, slug, places(mine, their))
	case before < 0 && !has.shadows && b.hides(mine, their):
		has.shadows = true
		b.warn(i, slug, CodeShadows, "rule %d (%s) of policy %s never decides beside it: it goes before and matches all that the other does; remove one, or change their %s", j, their.Action, slug, places(mine, their))
	case mine.tier == their.tier && mine.priority == their.priority:
		b.conflict(conflict{i, j, mine, their, slug, before})
	}
}

// places are what an author changes to have two policies in another order.
func places(mine, their *end) string {
	if mine.tier != their.tier {
		return "tiers"
	}
	return "priorities"
}

// before reports whether e goes before o and hides it; by is their order.
func (e *end) before(o *end, by int) bool { return by > 0 && e.hides(o) }

// compareEnds is the order of rules of two policies, as far as it does not hang
// on their ids.
func compareEnds(a, b *end) int {
	return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.priority, b.priority), cmp.Compare(a.step, b.step), cmp.Compare(class(a.Rule), class(b.Rule)))
}

// hides reports whether e, which goes before o, keeps it from deciding. A pass
// leaves other tiers alone.
func (e *end) hides(o *end) bool {
	return (e.Action != policy.Pass || e.tier == o.tier) && covers(e.Rule, o.Rule) &&
		e.sides.source.holds(o.sides.source) && e.sides.destination.holds(o.sides.destination)
}

// hides is hides beside all policies: a pass that stands before e in its tier takes
// flows to the tier of o past it, and then o decides them.
func (b *overlapping) hides(e, o *end) bool {
	switch {
	case !e.hides(o):
		return false
	case e.tier == o.tier:
		return true
	}
	return !b.takesPast(b.policy, e, o) && !slices.ContainsFunc(b.others, func(c *Policy) bool {
		return c != b.policy && b.takesPast(c, e, o)
	})
}

// takesPast reports whether a pass of a policy takes flows of o past e.
func (b *overlapping) takesPast(c *Policy, e, o *end) bool {
	for _, p := range c.passes {
		b.steps += p.steps(o)
		if p.tier == e.tier && compareEnds(p, e) < 0 && p.overlaps(o) {
			return true
		}
	}
	return false
}

func (e *end) overlaps(o *end) bool {
	return meet(e.Rule, o.Rule) && e.sides.meets(o.sides) && meets(e.node, o.node) && meets(e.other, o.other)
}

// meets reports whether labels may satisfy both, whose clauses are by key.
func meets(a, b policy.Expr) bool {
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0].Key, b[0].Key); {
		case c < 0:
			a = a[1:]
			continue
		case c > 0:
			b = b[1:]
			continue
		}
		for i := 0; i < len(b) && b[i].Key == a[0].Key; i++ {
			if excludes(&a[0], &b[i]) || excludes(&b[i], &a[0]) {
				return false
			}
		}
		a = a[1:] // the next may be of the same key
	}
	return true
}

// excludes reports whether what satisfies x cannot satisfy y, which is about the
// same key.
func excludes(x, y *policy.Clause) bool {
	if x.Op != policy.Equal && x.Op != policy.In {
		return x.Op == policy.Exists && y.Op == policy.Absent
	}
	switch y.Op {
	case policy.Equal, policy.In:
		return !slices.ContainsFunc(x.Values, func(v string) bool {
			_, has := slices.BinarySearch(y.Values, v)
			return has
		})
	case policy.NotEqual:
		return len(x.Values) == 1 && x.Values[0] == y.Values[0]
	case policy.Absent:
		return true
	}
	return false
}

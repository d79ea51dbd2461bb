package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Line is a rule of a policy that matches a node, seen from the node in one
// direction. Why says why the node does not enforce it; empty: it does.
type Line struct {
	Rule
	Why string
}

// Lines are what List gives, in the order in which rules are tried, egress first,
// and the rules of the same policies that the node does not enforce, each where it
// would stand: what an author wrote, as one node sees it.
func Lines(n policy.Node, heads []Head) []Line {
	all, plain := []Line(nil), Plain(heads)
	for _, h := range heads {
		all = append(all, linesOf(n, h, plain)...)
	}
	slices.SortStableFunc(all, func(a, b Line) int {
		if a.Direction != b.Direction {
			return int(a.Direction) - int(b.Direction)
		}
		return compareRules(&a.Rule, &b.Rule)
	})
	return all
}

// linesOf are those of one policy. What the node enforces is asked of List alone.
func linesOf(n policy.Node, h Head, plain bool) (all []Line) {
	if h.audit() {
		return linesInAudit(n, h)
	}
	rules := listed(n, []Head{h}, plain).Rules
	type place struct {
		index     int
		direction Direction
	}
	enforced := map[place]bool{}
	for _, r := range rules {
		enforced[place{r.Ref.Index, r.Direction}] = true
		all = append(all, Line{Rule: r})
	}
	l := newLister(n, h, plain)
	source, destination := h.Revision.Selector.Source, h.Revision.Selector.Destination
	for i, r := range h.Revision.Rules {
		if !enforced[place{i, Egress}] {
			rule := l.rule(i, r)
			rule.Direction, rule.Peer = Egress, l.peer(r.Destination, r.DestinationSelector, destination)
			all = append(all, Line{rule, l.why("source", r.AskedAt(policy.Egress), r.Source, r.SourceSelector, source)})
		}
		if !enforced[place{i, Ingress}] {
			rule := l.rule(i, r)
			rule.Direction, rule.Peer = Ingress, l.peer(r.Source, r.SourceSelector, source)
			all = append(all, Line{rule, l.why("destination", r.AskedAt(policy.Ingress), r.Destination, r.DestinationSelector, destination)})
		}
	}
	return all
}

// linesInAudit are those of a policy in audit mode, of which the node enforces none.
func linesInAudit(n policy.Node, h Head) []Line {
	all := linesOf(n, h.Enforced(), false)
	for i := range all {
		if all[i].Why == "" {
			all[i].Why = "the policy is in audit mode: what it would deny is counted"
		}
	}
	return all
}

// why says why the node does not enforce a rule on a side of it. asked: the rule's
// direction is that of the side.
func (l *lister) why(name string, asked bool, cidr netip.Prefix, own string, side policy.Expr) string {
	switch {
	case !asked:
		return notAsked(name)
	case l.bySide && !side.Matches(l.node.Labels):
		return fmt.Sprintf("the node is not on the %s side: the policy is for %s there", name, side)
	case own != "" && !parsed(own).Matches(l.node.Labels):
		return fmt.Sprintf("the node is not on the %s side: the rule is for %s there", name, own)
	case cidr.IsValid() && !slices.ContainsFunc(l.node.Addresses, cidr.Contains):
		return fmt.Sprintf("none of the node's addresses is in %s", cidr)
	}
	return notAsked(name)
}

func notAsked(side string) string { return fmt.Sprintf("the rule is not asked on the %s side", side) }

// Rules are a direction's rules in the order in which they are tried, those that
// only log among them. They are shared: do not modify.
func (t *Table) Rules(d Direction) []*Rule {
	if d != Egress && d != Ingress {
		return nil
	}
	return t.lists[d-Egress].rules
}

// ClosesDefault reports whether the rule is one for which its direction denies what
// nothing matches.
func (r *Rule) ClosesDefault() bool {
	return r.Verdict != Pass && r.Verdict != Log && !r.NoDefaultDeny
}

// String is the rule for people, seen from the node: what it does, with which
// flows, with whom.
func (r *Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Verdict, r.Protocol)
	switch {
	case r.Ports.To == 0:
	case r.Ports.From == r.Ports.To:
		fmt.Fprintf(&b, " %d", r.Ports.From)
	default:
		fmt.Fprintf(&b, " %d-%d", r.Ports.From, r.Ports.To)
	}
	toward := "to"
	if r.Direction == Ingress {
		toward = "from"
	}
	fmt.Fprintf(&b, " %s %s", toward, r.Peer)
	if r.ProxyPort != 0 {
		fmt.Fprintf(&b, ", proxy port %d", r.ProxyPort)
	}
	if r.ListenerPriority != 0 {
		fmt.Fprintf(&b, ", listener priority %d", r.ListenerPriority)
	}
	if r.Auth != AuthUnset {
		fmt.Fprintf(&b, ", auth %s", r.Auth)
	}
	return b.String()
}

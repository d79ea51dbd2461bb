// Package flow says what a node does with a flow, straight from the texts of
// policies and nodes as docs/datapath.md says it, slowly. It shares no code with the
// product: it judges what tables, explanations and resolved blocks say.
package flow

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/internal/test/gen"
)

// World is the nodes and policies of a project.
type World struct {
	Nodes    []gen.Node
	Policies []Policy
}

// Policy is a policy and its id.
type Policy struct {
	gen.Policy
	ID string
}

// Flow is one that begins at a node, or comes to it.
type Flow struct {
	Egress   bool
	Own      netip.Addr // the node's
	Peer     netip.Addr
	Protocol string // tcp, udp or icmp
	Port     int    // of tcp and udp
}

// Answer is what a node does with a flow, and what made the difference.
type Answer struct {
	Verdict string // allow, deny or redirect
	// Auth: a rule that matches asks for authentication.
	Auth bool
	// By is why: order, tier, pass, conflict or default, where without it another
	// verdict would have come; plain otherwise.
	By string
}

// Enforced is the world as it would be if all policies were in force.
func (w World) Enforced() World {
	w.Policies = slices.Clone(w.Policies)
	for i := range w.Policies {
		w.Policies[i].Mode = ""
	}
	return w
}

// line is a rule that matches a flow.
type line struct {
	gen.Rule
	policy *Policy
	index  int
}

// Decide says what node id does with a flow.
func (w World) Decide(id string, f Flow) Answer {
	self := w.node(id)
	var matched []*Policy
	for i := range w.Policies {
		if p := &w.Policies[i]; p.Mode != "audit" && (selects(p.Selector.Source, self) || selects(p.Selector.Destination, self)) {
			matched = append(matched, p)
		}
	}
	ordered := slices.ContainsFunc(matched, (*Policy).extended)
	closed, lines := !ordered, []line(nil)
	for _, p := range matched {
		for i, r := range p.Rules {
			if !w.concerns(self, p, r, f.Egress, ordered) {
				continue
			}
			if r.Action != "log" && r.Action != "pass" && (p.DefaultDeny == nil || *p.DefaultDeny) {
				closed = true
			}
			if r.Action != "log" && w.matches(p, r, f) {
				lines = append(lines, line{r, p, i})
			}
		}
	}
	slices.SortFunc(lines, compare)
	return decide(lines, closed)
}

func decide(lines []line, closed bool) (a Answer) {
	passed, skipped := map[int]bool{}, false
	for i, l := range lines {
		switch {
		case passed[l.policy.tier()]:
			skipped = skipped || l.Action != "pass"
		case l.Action == "pass":
			passed[l.policy.tier()] = true
		default:
			a.Verdict, a.By = l.Action, by(l, lines[i+1:], skipped)
			for _, l := range lines {
				a.Auth = a.Auth || l.Auth == "required"
			}
			return a
		}
	}
	if a.Verdict, a.By = "allow", "default"; closed {
		a.Verdict = "deny"
	}
	if skipped {
		a.By = "pass"
	}
	return a
}

// by is what the rules behind the one that decides would have made of the flow.
func by(l line, behind []line, skipped bool) string {
	if skipped {
		return "pass"
	}
	for _, o := range behind {
		if o.Action == l.Action || o.Action == "pass" {
			continue
		}
		switch {
		case o.policy.tier() != l.policy.tier():
			return "tier"
		case l.policy.ordered() || o.policy.ordered():
			return "order"
		case o.policy != l.policy:
			return "conflict"
		}
	}
	return "plain"
}

func (p *Policy) ordered() bool { return p.Tier != "" || p.Priority != nil }

func (p *Policy) extended() bool {
	return p.ordered() || p.DefaultDeny != nil || slices.ContainsFunc(p.Rules, func(r gen.Rule) bool {
		return r.SourceSelector != "" || r.DestinationSelector != "" || r.Action == "pass" || r.Action == "redirect" || r.Auth != "" || r.Protocol == "sctp" || r.Direction != ""
	})
}

func (p *Policy) tier() int {
	if p.Tier == "" {
		return 1
	}
	return slices.Index([]string{"admin", "normal", "baseline"}, p.Tier)
}

func (p *Policy) priority() int {
	if p.Priority == nil {
		return 1000
	}
	return *p.Priority
}

func (l line) step() int {
	if l.policy.ordered() {
		return l.index
	}
	return 0
}

func (l line) class() int {
	listener := l.ListenerPriority
	if listener == 0 {
		listener = 1000
	}
	return map[string]int{"deny": 0, "redirect": listener, "allow": 2000, "pass": 3000}[l.Action]
}

func compare(a, b line) int {
	return cmp.Or(
		cmp.Compare(a.policy.tier(), b.policy.tier()), cmp.Compare(a.policy.priority(), b.policy.priority()),
		cmp.Compare(a.step(), b.step()), cmp.Compare(a.class(), b.class()),
		strings.Compare(a.policy.ID, b.policy.ID), cmp.Compare(a.index, b.index),
	)
}

// concerns reports whether the node is on the side of a rule from which a flow of
// the direction is seen.
func (w World) concerns(self gen.Node, p *Policy, r gen.Rule, egress, ordered bool) bool {
	cidr, own, side := r.SourceCIDR, r.SourceSelector, p.Selector.Source
	if !egress {
		cidr, own, side = r.DestinationCIDR, r.DestinationSelector, p.Selector.Destination
	}
	if r.Direction != "" && egress != (r.Direction == "egress") || ordered && !selects(side, self) || own != "" && !selects(own, self) {
		return false
	}
	return cidr == "" || len(self.Addresses) == 0 || within(cidr, self)
}

// matches reports whether a flow's peer, protocol and port are a rule's.
func (w World) matches(p *Policy, r gen.Rule, f Flow) bool {
	cidr, own, side := r.DestinationCIDR, r.DestinationSelector, p.Selector.Destination
	if !f.Egress {
		cidr, own, side = r.SourceCIDR, r.SourceSelector, p.Selector.Source
	}
	if r.Protocol != "any" && r.Protocol != f.Protocol {
		return false
	}
	if r.Ports != nil && (f.Port < r.Ports.From || f.Port > r.Ports.To) {
		return false
	}
	owner, owned := w.owner(f.Peer)
	switch {
	case own != "":
		return owned && selects(own, owner) && selects(side, owner)
	case owned:
		return within(cidr, owner)
	}
	return netip.MustParsePrefix(cidr).Contains(f.Peer)
}

func within(cidr string, n gen.Node) bool {
	return slices.ContainsFunc(n.Addresses, func(a string) bool { return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(a)) })
}

func (w World) node(id string) gen.Node {
	return w.Nodes[slices.IndexFunc(w.Nodes, func(n gen.Node) bool { return n.ID == id })]
}

func (w World) owner(a netip.Addr) (gen.Node, bool) {
	i := slices.IndexFunc(w.Nodes, func(n gen.Node) bool { return slices.Contains(n.Addresses, a.String()) })
	if i < 0 {
		return gen.Node{}, false
	}
	return w.Nodes[i], true
}

// selects reads selectors of one clause, k=v or !k, or of none.
func selects(selector string, n gen.Node) bool {
	if k, absent := strings.CutPrefix(selector, "!"); absent {
		_, there := n.Labels[k]
		return !there
	}
	k, v, _ := strings.Cut(selector, "=")
	got, there := n.Labels[k]
	return there && got == v
}

// Rule is a rule of a node's state.
type Rule struct {
	Source      netip.Prefix `json:"source_cidr"`
	Destination netip.Prefix `json:"destination_cidr"`
	Protocol    string       `json:"protocol"`
	Ports       *gen.Ports   `json:"ports"`
	Action      string       `json:"action"`
}

// First is what an agent of the node contract does with a flow: the first rule that
// matches decides, log rules are skipped, and what no rule matches is denied.
func First(rules []Rule, f Flow) string {
	from, to := f.Own, f.Peer
	if !f.Egress {
		from, to = f.Peer, f.Own
	}
	for _, r := range rules {
		if r.Action == "log" || !r.Source.Contains(from) || !r.Destination.Contains(to) || r.Protocol != "any" && r.Protocol != f.Protocol {
			continue
		}
		if r.Ports == nil || r.Ports.From <= f.Port && f.Port <= r.Ports.To {
			return r.Action
		}
	}
	return "deny"
}

package datapath_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// fleetNode draws a node of a small world.
func fleetNode(t *rapid.T, id string) policy.Node {
	m := map[string]string{}
	for _, key := range []string{"a", "b"} {
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, key); v != "" {
			m[key] = v
		}
	}
	labels, err := policy.NewLabels(m, "")
	require.NoError(t, err)
	n := policy.Node{ID: policy.NodeID(id), Labels: labels}
	for _, a := range rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.1", "10.1.0.1", "10.1.1.1", "fd00::1"}), 0, 2).Draw(t, "addresses") {
		n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
	}
	return n
}

func fleetRule(t *rapid.T) policy.Rule {
	prefixes := rapid.SampledFrom([][]string{{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.0.0.1/32"}, {"::/0", "fd00::/8"}}).Draw(t, "family")
	r := policy.Rule{
		Action:      rapid.SampledFrom([]policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log}).Draw(t, "action"),
		Protocol:    rapid.SampledFrom([]policy.Protocol{policy.TCP, policy.Any}).Draw(t, "protocol"),
		Source:      netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "source")),
		Destination: netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "destination")),
	}
	selectors := rapid.SampledFrom([]string{"", "", "a=1", "b", "!a"})
	if s := selectors.Draw(t, "source_selector"); s != "" {
		r.Source, r.SourceSelector = netip.Prefix{}, s
	}
	if s := selectors.Draw(t, "destination_selector"); s != "" {
		r.Destination, r.DestinationSelector = netip.Prefix{}, s
	}
	r.Direction = rapid.SampledFrom([]policy.Direction{"", "", policy.Ingress, policy.Egress}).Draw(t, "direction")
	if r.Protocol == policy.TCP {
		r.Ports = rapid.SampledFrom([]policy.Ports{{From: 80, To: 80}, {From: 1, To: 65535}, {From: 79, To: 81}}).Draw(t, "ports")
	}
	return r
}

func fleetHead(t *rapid.T, i int) datapath.Head {
	expr := func(name string) policy.Expr {
		e, _ := policy.ParseExpr(rapid.SampledFrom([]string{"a", "a=1", "b in (1,2)", "!b", "b!=1"}).Draw(t, name))
		return e
	}
	h := datapath.Head{Policy: uuid.UUID{0: 1, 15: byte(i)}, Revision: policy.Revision{ID: uuid.UUID{0: 2, 15: byte(i)}}}
	h.Revision.Selector = policy.Selector{Source: expr("source side"), Destination: expr("destination side")}
	h.Revision.Rules = rapid.SliceOfN(rapid.Custom(fleetRule), 1, 4).Draw(t, "rules")
	h.Revision.Order.Tier = rapid.SampledFrom([]policy.Tier{"", policy.Admin, policy.Baseline}).Draw(t, "tier")
	if rapid.Bool().Draw(t, "prioritised") {
		h.Revision.Order.Priority = policy.Priority{N: rapid.Uint32Range(0, 2).Draw(t, "priority"), Set: true}
	}
	h.Revision.Order.NoDefaultDeny = rapid.IntRange(0, 4).Draw(t, "no default deny") == 0
	return h
}

// judge answers a flow between two nodes from the policies themselves, as a
// person would read them: no list, no identities, no table.
type judge struct {
	heads []datapath.Head
	tcp   bool
	port  uint16
}

type asked struct {
	head  datapath.Head
	rule  policy.Rule
	index int
}

func (j judge) verdict(self, peer policy.Node, egress bool) string {
	var all []asked
	closed := false
	for _, h := range j.heads {
		for i, r := range h.Revision.Rules {
			if !j.on(self, h, r, egress) {
				continue
			}
			all = append(all, asked{h, r, i})
			if r.Action != policy.Log && r.Action != policy.Pass && !h.Revision.Order.NoDefaultDeny {
				closed = true
			}
		}
	}
	slices.SortStableFunc(all, func(a, b asked) int { return strings.Compare(j.place(a), j.place(b)) })
	skipped := map[string]bool{}
	for _, a := range all {
		tier, _ := a.head.Revision.Order.Level()
		if skipped[string(tier)] || !j.matches(a.rule) || !j.peer(self, peer, a.head, a.rule, egress) {
			continue
		}
		switch a.rule.Action {
		case policy.Pass:
			skipped[string(tier)] = true
		case policy.Allow, policy.Deny:
			return string(a.rule.Action)
		}
	}
	if closed {
		return "deny"
	}
	return "allow"
}

// place is a text that sorts where docs/design.md#ordered-policy puts the rule.
func (j judge) place(a asked) string {
	o := a.head.Revision.Order
	tier := map[policy.Tier]int{policy.Admin: 0, policy.Normal: 1, "": 1, policy.Baseline: 2}[o.Tier]
	priority, index := uint32(1000), 0
	if o.Priority.Set {
		priority = o.Priority.N
	}
	if o.Tier != "" || o.Priority.Set {
		index = a.index
	}
	class := map[policy.Action]int{policy.Deny: 0, policy.Allow: 2, policy.Pass: 3, policy.Log: 4}[a.rule.Action]
	return fmt.Sprintf("%d %08d %04d %d %s %04d", tier, priority, index, class, a.head.Policy, a.index)
}

func (j judge) matches(r policy.Rule) bool {
	return r.Protocol == policy.Any || j.tcp && r.Ports.From <= j.port && j.port <= r.Ports.To
}

func (j judge) sides(h datapath.Head, r policy.Rule, source bool) (policy.Expr, string, netip.Prefix) {
	if source {
		return h.Revision.Selector.Source, r.SourceSelector, r.Source
	}
	return h.Revision.Selector.Destination, r.DestinationSelector, r.Destination
}

// on: the policy's selector for the side matches the node, and the rule's own,
// or one of its addresses lies in the rule's CIDR.
func (j judge) on(n policy.Node, h datapath.Head, r policy.Rule, source bool) bool {
	side, own, cidr := j.sides(h, r, source)
	if r.Direction == policy.Ingress && source || r.Direction == policy.Egress && !source {
		return false
	}
	if !side.Matches(n.Labels) {
		return false
	}
	if own != "" {
		e, _ := policy.ParseExpr(own)
		return e.Matches(n.Labels)
	}
	return inside(n, cidr)
}

// peer: named by selector, it is a node of both selectors; by CIDR, anyone in it.
// To a node of one family, the whole of that family is everyone.
func (j judge) peer(self, peer policy.Node, h datapath.Head, r policy.Rule, egress bool) bool {
	side, own, cidr := j.sides(h, r, !egress)
	if own != "" {
		e, _ := policy.ParseExpr(own)
		return side.Matches(peer.Labels) && e.Matches(peer.Labels)
	}
	if cidr.Bits() == 0 && len(self.Addresses) > 0 &&
		!slices.ContainsFunc(self.Addresses, func(a netip.Addr) bool { return a.Is4() != cidr.Addr().Is4() }) {
		return true
	}
	return inside(peer, cidr)
}

func inside(n policy.Node, cidr netip.Prefix) bool {
	return len(n.Addresses) == 0 || slices.ContainsFunc(n.Addresses, cidr.Contains)
}

// Every flow between any two nodes is answered by the table of either as the
// policies read, whatever labels and addresses they have.
func TestATableOfAListAnswersAsThePoliciesRead(t *testing.T) {
	gen.Unraced()
	decided := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var nodes []policy.Node
		for i := range rapid.IntRange(2, 5).Draw(t, "nodes") {
			nodes = append(nodes, fleetNode(t, fmt.Sprintf("n%d", i)))
		}
		var heads []datapath.Head
		for i := range rapid.IntRange(1, 4).Draw(t, "policies") {
			heads = append(heads, fleetHead(t, i))
		}
		for _, self := range nodes {
			var matched []datapath.Head
			for _, h := range heads {
				if h.Revision.Selector.Matches(self.Labels) {
					matched = append(matched, h)
				}
			}
			if datapath.Plain(matched) {
				continue // another reading, of which TestOnePolicyHasOneMeaning is the judge
			}
			rules := datapath.List(self, matched).Rules
			kinds := datapath.NewKinds(rules)
			population, err := kinds.Sort(nodes, nil)
			require.NoError(t, err)
			table, err := datapath.Build(rules, population.Identities, datapath.Options{})
			require.NoError(t, err)
			for _, peer := range nodes {
				id, _ := kinds.Of(peer)
				number, _ := table.ID(id.Name)
				for _, egress := range []bool{true, false} {
					direction := datapath.Ingress
					if egress {
						direction = datapath.Egress
					}
					for _, j := range []judge{{heads, true, 80}, {heads, true, 81}, {heads, true, 90}, {heads, false, 80}} {
						protocol := datapath.TCP
						if !j.tcp {
							protocol = datapath.UDP
						}
						got := "deny"
						if e, ok := table.Lookup(direction, number, protocol, j.port); ok {
							got = e.Verdict.String()
						}
						want := j.verdict(self, peer, egress)
						if want != got {
							t.Fatalf("%s %v %v, %s %v %v, %d/%s: want %s, got %s", self.ID, self.Labels, direction, peer.ID, peer.Labels, peer.Addresses, j.port, protocol, want, got)
						}
						decided[want]++
					}
				}
			}
		}
	})
	require.NotZero(t, decided["allow"])
	require.NotZero(t, decided["deny"])
}

func TestAssumptionsNameTheRuleAndTheCIDR(t *testing.T) {
	head := datapath.Head{Policy: uuid.UUID{15: 1}, Revision: policy.Revision{ID: uuid.UUID{15: 2}, Order: policy.Order{Tier: policy.Normal}}}
	head.Revision.Selector.Source, _ = policy.ParseExpr("a")
	head.Revision.Selector.Destination, _ = policy.ParseExpr("b")
	head.Revision.Rules = []policy.Rule{{Action: policy.Allow, Protocol: policy.Any, Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.0.0.0/8")}}
	labels, _ := policy.NewLabels(map[string]string{"a": ""}, "")
	list := datapath.List(policy.Node{ID: "n", Labels: labels}, []datapath.Head{head})
	require.Len(t, list.Rules, 1)
	require.Equal(t, []datapath.Assumption{{Rule: list.Rules[0].Ref, CIDR: head.Revision.Rules[0].Source}}, list.Assumed)
	list = datapath.List(policy.Node{ID: "n", Labels: labels, Addresses: policy.Addresses{netip.MustParseAddr("11.0.0.1")}}, []datapath.Head{head})
	require.Empty(t, list.Rules, "its address is elsewhere")
	require.Empty(t, list.Assumed)
}

package datapath_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

func side(t *testing.T, text string) policy.Expr {
	e, faults := policy.ParseExpr(text)
	require.Empty(t, faults)
	return e
}

func nodeOf(t *testing.T, labels map[string]string, addresses ...string) policy.Node {
	l, err := policy.NewLabels(labels, "")
	require.NoError(t, err)
	n := policy.Node{ID: "n", Labels: l}
	for _, a := range addresses {
		n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
	}
	return n
}

// walls lets grafana through and denies the rest of qa.
func walls(t *testing.T) datapath.Head {
	all := policy.Ports{From: 443, To: 443}
	return datapath.Head{Policy: uuid.UUID{1}, Revision: policy.Revision{
		ID:       uuid.UUID{2},
		Selector: policy.Selector{Source: side(t, "env=qa"), Destination: side(t, "env=prod")},
		Order:    policy.Order{Tier: policy.Admin},
		Rules: []policy.Rule{
			{Action: policy.Allow, Protocol: policy.TCP, Ports: all, SourceSelector: "role=grafana", DestinationSelector: "env=prod"},
			{Action: policy.Redirect, Protocol: policy.TCP, Ports: policy.Ports{From: 80, To: 90}, ProxyPort: 10080, ListenerPriority: 7, Auth: policy.AuthRequired, Source: netip.MustParsePrefix("10.0.0.0/24"), Destination: netip.MustParsePrefix("10.1.0.0/24")},
			{Action: policy.Deny, Protocol: policy.Any, SourceSelector: "env=qa", DestinationSelector: "env=prod"},
		},
	}}
}

func TestLinesSayWhatANodeEnforcesAndWhyItDoesNotTheRest(t *testing.T) {
	var got []string
	for _, l := range datapath.Lines(nodeOf(t, map[string]string{"env": "qa"}, "10.7.0.1"), []datapath.Head{walls(t)}) {
		got = append(got, l.Direction.String()+": "+l.String()+": "+l.Why)
	}
	require.Equal(t, []string{
		"egress: allow tcp 443 to env=prod: the node is not on the source side: the rule is for role=grafana there",
		"egress: redirect tcp 80-90 to 10.1.0.0/24, proxy port 10080, listener priority 7, auth required: none of the node's addresses is in 10.0.0.0/24",
		"egress: deny any to env=prod: ",
		"ingress: allow tcp 443 from env=qa,role=grafana: the node is not on the destination side: the policy is for env=prod there",
		"ingress: redirect tcp 80-90 from 10.0.0.0/24, proxy port 10080, listener priority 7, auth required: the node is not on the destination side: the policy is for env=prod there",
		"ingress: deny any from env=qa: the node is not on the destination side: the policy is for env=prod there",
	}, got)
}

func TestARuleOfOneDirectionIsAskedAtOneEnd(t *testing.T) {
	all := netip.MustParsePrefix("10.0.0.0/8")
	rule := func(d policy.Direction, p policy.Protocol) policy.Rule {
		return policy.Rule{Action: policy.Allow, Protocol: p, Source: all, Destination: all, Direction: d}
	}
	h := datapath.Head{Policy: uuid.UUID{1}, Revision: policy.Revision{
		ID: uuid.UUID{2}, Selector: policy.Selector{Source: side(t, "env"), Destination: side(t, "env")},
		Rules: []policy.Rule{rule(policy.Egress, policy.Any), rule(policy.Ingress, policy.ICMP), rule("", policy.ICMP)},
	}}
	for _, addresses := range [][]string{{"10.0.0.1"}, nil} {
		var got []string
		for _, l := range datapath.Lines(nodeOf(t, map[string]string{"env": "qa"}, addresses...), []datapath.Head{h}) {
			got = append(got, l.Direction.String()+": "+l.String()+": "+l.Why)
		}
		require.Equal(t, []string{
			"egress: allow any to 10.0.0.0/8: ",
			"egress: allow icmp to 10.0.0.0/8: the rule is not asked on the source side",
			"egress: allow icmp to 10.0.0.0/8: ",
			"ingress: allow any from 10.0.0.0/8: the rule is not asked on the destination side",
			"ingress: allow icmp from 10.0.0.0/8: ",
			"ingress: allow icmp from 10.0.0.0/8: ",
		}, got)
	}
	// A direction with no rule closes nothing.
	h.Revision.Rules = h.Revision.Rules[:1]
	table, err := datapath.Build(datapath.List(nodeOf(t, map[string]string{"env": "qa"}, "10.0.0.1"), []datapath.Head{h}).Rules, nil, datapath.Options{})
	require.NoError(t, err)
	require.Equal(t, datapath.Deny, table.DefaultVerdict(datapath.Egress))
	require.Equal(t, datapath.Allow, table.DefaultVerdict(datapath.Ingress))
}

// Lines that the node enforces are what List gives, in the order of the table made
// of it.
func TestLinesAreTheListOfTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := fleetNode(t, "n")
		var heads []datapath.Head
		for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
			heads = append(heads, fleetHead(t, i))
		}
		list := datapath.List(n, heads)
		table, err := datapath.Build(list.Rules, nil, datapath.Options{Closed: list.Closed})
		require.NoError(t, err)
		lines, written := datapath.Lines(n, heads), 0
		for _, h := range heads {
			written += len(h.Revision.Rules)
		}
		require.Len(t, lines, 2*written)
		for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
			var enforced []datapath.Rule
			for _, l := range lines {
				if l.Direction == d && l.Why == "" {
					enforced = append(enforced, l.Rule)
				}
			}
			var of []datapath.Rule
			for _, r := range table.Rules(d) {
				of = append(of, *r)
			}
			require.Equal(t, of, enforced)
			closes := slices.ContainsFunc(enforced, func(r datapath.Rule) bool { return r.ClosesDefault() })
			require.Equal(t, list.Closed || closes, table.DefaultVerdict(d) == datapath.Deny)
		}
	})
}

func TestAReachMissesANodeWhoseAddressesLieInNoCIDR(t *testing.T) {
	h := walls(t)
	h.Revision.Rules = h.Revision.Rules[1:2]
	r := datapath.NewReach(h.Revision.Content())
	qa, prod := map[string]string{"env": "qa"}, map[string]string{"env": "prod"}
	require.True(t, r.Misses(nodeOf(t, qa, "10.7.0.1"), false))
	require.True(t, r.Misses(nodeOf(t, prod, "10.0.0.1"), false), "the address is in the other side's CIDR")
	require.False(t, r.Misses(nodeOf(t, qa, "10.7.0.1", "10.0.0.1"), false), "one of its addresses is in")
	require.False(t, r.Misses(nodeOf(t, prod, "10.1.0.1"), false))
	require.False(t, r.Misses(nodeOf(t, qa), false), "without addresses it lies in every CIDR")
	require.False(t, r.Misses(nodeOf(t, map[string]string{"env": "dev"}, "10.7.0.1"), false), "the policy is not for it")
	whole := datapath.NewReach(walls(t).Revision.Content())
	require.False(t, whole.Misses(nodeOf(t, qa, "10.7.0.1"), false), "a rule by selector meets it")
}

// A reach misses those that List gives nothing for want of an address alone.
func TestAReachMissesOnlyWhomListGivesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, h := fleetNode(t, "n"), fleetHead(t, 0)
		rules := datapath.List(n, []datapath.Head{h}).Rules
		bare := n
		bare.Addresses = nil
		somewhere := datapath.List(bare, []datapath.Head{h}).Rules
		want := len(rules) == 0 && len(somewhere) > 0
		require.Equal(t, want, datapath.NewReach(h.Revision.Content()).Misses(n, datapath.Plain([]datapath.Head{h})))
	})
}

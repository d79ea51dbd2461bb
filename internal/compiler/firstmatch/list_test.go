package firstmatch_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/policy"
)

// town is the nodes that selectors name, each as many addresses as it says, and the
// nodes of which a CIDR has one address and not another.
type town struct {
	members   int
	elsewhere []netip.Addr
}

func (t town) Members(datapath.Peer) (out []netip.Addr) {
	for n := range t.members {
		out = append(out, netip.AddrFrom4([4]byte{10, 9, byte(n >> 8), byte(n)}))
	}
	return out
}

func (t town) Elsewhere(netip.Prefix) []netip.Addr { return t.elsewhere }

var self = policy.Addresses{netip.MustParseAddr("10.0.0.1")}

// egress is a rule of a node that has a place of its own in the order.
func egress(at int, tier datapath.Tier, verdict datapath.Verdict, peer string, port uint16) datapath.Rule {
	r := datapath.Rule{
		Ref: datapath.Ref{Policy: "p", Revision: "r", Index: at}, Direction: datapath.Egress, Tier: tier, Ordered: true,
		Verdict: verdict, Protocol: datapath.AnyProtocol,
	}
	if port > 0 {
		r.Protocol, r.Ports = datapath.TCP, policy.Ports{From: port, To: port}
	}
	switch prefix, err := netip.ParsePrefix(peer); {
	case peer == "any":
		r.Peer.Any = true
	case err == nil:
		r.Peer.CIDR = prefix
	default:
		e, _ := policy.ParseExpr(peer)
		r.Peer.Selectors = []policy.Expr{e}
	}
	return r
}

// lines are the rules of a node, without those of ingress, which it has none about.
func lines(t *testing.T, peers firstmatch.Peers, rules ...datapath.Rule) (out []string, omitted int) {
	table, err := datapath.Build(rules, nil, datapath.Options{})
	require.NoError(t, err)
	all, omitted := firstmatch.Of(table, peers).Rules(self)
	for _, r := range all {
		if r.Destination.Addr() != self[0] {
			require.Equal(t, "10.0.0.1/32", r.Source.String())
			text := fmt.Sprintf("%s %s %s", r.Action, r.Protocol, r.Destination)
			if r.Ports.To > 0 {
				text += fmt.Sprintf(" %d", r.Ports.To)
			}
			out = append(out, text)
		}
	}
	return out, omitted
}

func TestTheOrderOfANodeIsOneList(t *testing.T) {
	for _, c := range []struct {
		name    string
		peers   town
		rules   []datapath.Rule
		want    []string
		omitted int
	}{
		{
			name:  "what is written first goes first",
			rules: []datapath.Rule{egress(0, datapath.Normal, datapath.Deny, "10.81.0.2/32", 22), egress(1, datapath.Normal, datapath.Allow, "10.81.0.0/16", 22)},
			want:  []string{"deny tcp 10.81.0.2/32 22", "allow tcp 10.81.0.0/16 22", "deny any 0.0.0.0/0"},
		},
		{
			name:  "a tier goes before the next, whatever the index",
			rules: []datapath.Rule{egress(0, datapath.Normal, datapath.Allow, "any", 80), egress(1, datapath.Admin, datapath.Deny, "10.0.0.0/8", 80)},
			want:  []string{"deny tcp 10.0.0.0/8 80", "allow tcp 0.0.0.0/0 80", "deny any 0.0.0.0/0"},
		},
		{
			name: "a pass is what it leads to",
			rules: []datapath.Rule{
				egress(0, datapath.Admin, datapath.Pass, "10.1.0.0/16", 0), egress(1, datapath.Admin, datapath.Deny, "any", 0),
				egress(2, datapath.Normal, datapath.Allow, "any", 443),
			},
			want: []string{"allow tcp 10.1.0.0/16 443", "deny any 10.1.0.0/16", "deny any 0.0.0.0/0"},
		},
		{
			name:  "a pass behind which there is nothing leads to the default",
			rules: []datapath.Rule{egress(0, datapath.Baseline, datapath.Pass, "10.1.0.0/16", 0)},
			want:  []string{"allow any 10.1.0.0/16", "allow any 0.0.0.0/0"},
		},
		{
			name:  "a selector is the addresses of its nodes",
			peers: town{members: 2},
			rules: []datapath.Rule{egress(0, datapath.Normal, datapath.Allow, "role=web", 80)},
			want:  []string{"allow tcp 10.9.0.0/32 80", "allow tcp 10.9.0.1/32 80", "deny any 0.0.0.0/0"},
		},
		{
			name:  "a node is in a CIDR with all its addresses",
			peers: town{elsewhere: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
			rules: []datapath.Rule{egress(0, datapath.Normal, datapath.Deny, "10.1.0.0/16", 0), egress(1, datapath.Normal, datapath.Allow, "any", 0)},
			want:  []string{"deny any 10.1.0.0/16", "deny any 192.0.2.1/32", "allow any 0.0.0.0/0"},
		},
		{
			name:    "a redirect is denied and counted, and so is SCTP",
			rules:   []datapath.Rule{redirect(0), egress(1, datapath.Normal, datapath.Allow, "any", 0), sctp(2)},
			want:    []string{"deny tcp 0.0.0.0/0 80", "allow any 0.0.0.0/0"},
			omitted: 2,
		},
		{
			name:    "who needs authentication is denied and counted",
			rules:   []datapath.Rule{egress(0, datapath.Normal, datapath.Deny, "10.1.0.0/16", 0), needsAuth(1)},
			want:    []string{"deny any 10.1.0.0/16", "deny tcp 0.0.0.0/0 80", "deny any 0.0.0.0/0"},
			omitted: 1,
		},
		{
			name:    "and so is whom another rule of the level may have authenticate",
			rules:   unordered(egress(0, datapath.Normal, datapath.Allow, "any", 80), needsAuth(1)),
			want:    []string{"deny tcp 0.0.0.0/0 80", "deny any 0.0.0.0/0"},
			omitted: 1,
		},
		{
			name:    "but not a rule of another level",
			rules:   []datapath.Rule{egress(0, datapath.Normal, datapath.Allow, "any", 80), needsAuth(1)},
			want:    []string{"allow tcp 0.0.0.0/0 80", "deny any 0.0.0.0/0"},
			omitted: 1,
		},
		{
			name:    "allows that take most rules are left out where there are too many",
			peers:   town{members: 4093},
			rules:   []datapath.Rule{egress(0, datapath.Normal, datapath.Allow, "role=web", 80), egress(1, datapath.Normal, datapath.Deny, "10.1.0.0/16", 0), egress(2, datapath.Normal, datapath.Allow, "10.2.0.0/16", 0)},
			want:    []string{"deny any 10.1.0.0/16", "allow any 10.2.0.0/16", "deny any 0.0.0.0/0"},
			omitted: 1,
		},
		{
			name:    "denies that are too many are a deny of all",
			peers:   town{members: 5000},
			rules:   []datapath.Rule{egress(0, datapath.Normal, datapath.Deny, "role=web", 80), egress(1, datapath.Normal, datapath.Allow, "any", 0)},
			want:    []string{"deny any 0.0.0.0/0"},
			omitted: 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, omitted := lines(t, c.peers, c.rules...)
			require.Equal(t, strings.Join(c.want, "\n"), strings.Join(got, "\n"))
			require.Equal(t, c.omitted, omitted)
		})
	}
}

// unordered are rules of a policy that is one level.
func unordered(rules ...datapath.Rule) []datapath.Rule {
	for i := range rules {
		rules[i].Ordered = false
	}
	return rules
}

func redirect(at int) datapath.Rule {
	r := egress(at, datapath.Normal, datapath.Redirect, "any", 80)
	r.ProxyPort = 15001
	return r
}

func sctp(at int) datapath.Rule {
	r := egress(at, datapath.Normal, datapath.Allow, "any", 80)
	r.Protocol = datapath.SCTP
	return r
}

func needsAuth(at int) datapath.Rule {
	r := egress(at, datapath.Normal, datapath.Allow, "any", 80)
	r.Auth = datapath.AuthRequired
	return r
}

// A node without addresses gets the CIDRs that were written, in one list.
func TestANodeWithoutAddressesGetsWhatWasWritten(t *testing.T) {
	written := []policy.Rule{
		{Action: policy.Deny, Protocol: policy.TCP, Ports: policy.Ports{From: 22, To: 22}, Source: netip.MustParsePrefix("0.0.0.0/0"), Destination: netip.MustParsePrefix("10.81.0.2/32")},
		{Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: 22, To: 22}, Source: netip.MustParsePrefix("0.0.0.0/0"), Destination: netip.MustParsePrefix("10.81.0.0/16")},
		{Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: 23, To: 23}, Source: netip.MustParsePrefix("0.0.0.0/0"), DestinationSelector: "role=web"},
		{Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: 24, To: 24}, Source: netip.MustParsePrefix("0.0.0.0/0"), Destination: netip.MustParsePrefix("10.82.0.0/16"), Direction: policy.Egress},
	}
	table, err := datapath.Build([]datapath.Rule{
		egress(0, datapath.Normal, datapath.Deny, "10.81.0.2/32", 22), egress(1, datapath.Normal, datapath.Allow, "10.81.0.0/16", 22), egress(2, datapath.Normal, datapath.Allow, "role=web", 23),
		egress(3, datapath.Normal, datapath.Allow, "10.82.0.0/16", 24),
	}, nil, datapath.Options{})
	require.NoError(t, err)
	rules, omitted := firstmatch.Unaddressed(table, func(r datapath.Ref) policy.Rule { return written[r.Index] })
	require.Equal(t, 2, omitted)
	require.Equal(t, `[{"source_cidr":"0.0.0.0/0","destination_cidr":"10.81.0.2/32","protocol":"tcp","ports":{"from":22,"to":22},"action":"deny"},`+
		`{"source_cidr":"0.0.0.0/0","destination_cidr":"10.81.0.0/16","protocol":"tcp","ports":{"from":22,"to":22},"action":"allow"},`+
		`{"source_cidr":"0.0.0.0/0","destination_cidr":"0.0.0.0/0","protocol":"tcp","ports":{"from":23,"to":23},"action":"deny"},`+
		`{"source_cidr":"0.0.0.0/0","destination_cidr":"10.82.0.0/16","protocol":"tcp","ports":{"from":24,"to":24},"action":"deny"},`+
		`{"source_cidr":"0.0.0.0/0","destination_cidr":"0.0.0.0/0","protocol":"any","action":"deny"}]`, string(compiler.AppendRules(nil, rules)))
}

// BenchmarkBlock makes the block of a list beside its table: the list that nodes share,
// and then the rules of one node.
func BenchmarkBlock(b *testing.B) {
	for _, rules := range []int{100, 1000} {
		list, ids := make([]datapath.Rule, rules), make([]datapath.Identity, 1000)
		for i := range list {
			list[i] = egress(i, datapath.Normal, []datapath.Verdict{datapath.Allow, datapath.Deny}[i%2], fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), uint16(1+i))
		}
		for i := range ids {
			ids[i] = datapath.Identity{Name: fmt.Sprint("{}", i), CIDRs: []netip.Prefix{list[i%rules].Peer.CIDR}}
		}
		b.Run(fmt.Sprintf("%dx1000/table", rules), func(b *testing.B) {
			for b.Loop() {
				if _, err := datapath.Build(list, ids, datapath.Options{Capacity: 1 << 20}); err != nil {
					b.Fatal(err)
				}
			}
		})
		table, err := datapath.Build(list, ids, datapath.Options{Capacity: 1 << 20})
		require.NoError(b, err)
		b.Run(fmt.Sprintf("%dx1000/block", rules), func(b *testing.B) {
			for b.Loop() {
				firstmatch.Of(table, town{})
			}
		})
		shared := firstmatch.Of(table, town{})
		b.Run(fmt.Sprintf("%dx1000/node", rules), func(b *testing.B) {
			size := 0
			for b.Loop() {
				all, _ := shared.Rules(self)
				size = len(compiler.AppendRules(nil, all))
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// TestRulesOfOnePeerShareItsAddresses: a thousand rules of a selector that holds thousands of
// nodes are not millions of pairs in memory.
func TestRulesOfOnePeerShareItsAddresses(t *testing.T) {
	made := func(members int) (rules []policy.Rule, omitted int) {
		var all []datapath.Rule
		for i := range 1000 {
			all = append(all, egress(i, datapath.Normal, datapath.Allow, "role=web", uint16(i+1)))
		}
		table, err := datapath.Build(all, nil, datapath.Options{})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l := firstmatch.Of(table, town{members: members})
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
		return l.Rules(self)
	}
	made(4000)
	rules, omitted := made(1 << 16)
	require.Equal(t, firstmatch.Closed(self), rules, "what is too much is denied")
	require.Equal(t, 1000, omitted)
}

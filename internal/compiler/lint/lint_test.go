package lint

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/oracle/firstmatch"
	"github.com/edictdev/edict/policy"
)

func content(t *testing.T, order, rules string) policy.Content {
	t.Helper()
	c, err := policy.DecodePreview([]byte(`{"selector":{"source":"a","destination":"b"}` + order + `,"rules":[` + rules + `]}`))
	require.NoError(t, err)
	return c
}

func line(action, from, to, traffic string) string {
	return fmt.Sprintf(`{"action":%q,"protocol":%s,"source_cidr":%q,"destination_cidr":%q}`, action, traffic, from, to)
}

func TestEachCodeIsFound(t *testing.T) {
	const any, web = `"any"`, `"tcp","ports":{"from":80,"to":80}`
	found := map[string]bool{}
	for _, c := range []struct{ order, rules, want string }{
		{`,"priority":1`, line("allow", "10.0.0.0/8", "10.0.0.0/8", any) + "," + line("deny", "10.1.0.0/16", "10.0.0.0/8", web), "/rules/1 rule_shadowed"},
		{`,"priority":1`, line("deny", "10.1.0.0/16", "10.0.0.0/8", web) + "," + line("allow", "10.0.0.0/8", "10.0.0.0/8", any), ""},
		{`,"priority":1`, line("log", "10.0.0.0/8", "10.0.0.0/8", any) + "," + line("allow", "10.0.0.0/8", "10.0.0.0/8", any), "/rules/0 log_skipped"},
		{``, line("deny", "10.1.0.0/16", "10.0.0.0/8", web) + "," + line("allow", "10.0.0.0/8", "10.0.0.0/8", any), "/rules/1 equal_priority_overlap"},
		{``, line("allow", "10.0.0.0/8", "10.0.0.0/8", any) + "," + line("deny", "10.1.0.0/16", "10.0.0.0/8", web), "/rules/1 order_flipped"},
		{``, line("allow", "fd00::/8", "fd00::/8", any), "/rules/0 ipv6_refused"},
		{`,"tier":"baseline"`, line("pass", "10.0.0.0/8", "10.0.0.0/8", any), "/rules/0/action pass_into_nothing"},
	} {
		var got []string
		for _, w := range Content(content(t, c.order, c.rules)) {
			got = append(got, w.Pointer+" "+w.Code)
			found[w.Code] = true
		}
		require.Equal(t, c.want, strings.Join(got, ","), c.rules)
	}
	for _, other := range []string{CodeShadows, CodeRedirectsDiffer, CodeAuthDiffers, CodeDirectionClosed, CodeDirectionOpened, CodeTooManyEntries, CodeBlockTooLarge, CodeOutside, CodeMatchesNone} {
		found[other] = true // of two policies alone, or of nodes
	}
	for _, code := range codes {
		require.True(t, found[code], code)
	}
}

// codes are all that a warning can have.
var codes = []string{CodeShadowed, CodeShadows, CodeEqualLevel, CodeRedirectsDiffer, CodeAuthDiffers, CodeDirectionClosed, CodeDirectionOpened, CodeTooManyEntries, CodeBlockTooLarge, CodeOutside, CodeMatchesNone, CodeOrderFlipped, CodeIPv6, CodeLogSkipped, policy.CodePassIntoNothing}

func TestTheCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/lint.md")
	require.NoError(t, err)
	var rows []string
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, "| `"); ok {
			code, _, _ := strings.Cut(rest, "`")
			rows = append(rows, code)
		}
	}
	slices.Sort(rows)
	require.Equal(t, slices.Sorted(slices.Values(codes)), rows)
}

var (
	cidrs     = []string{"10.0.0.0/8", "10.0.0.0/16", "10.0.1.0/24", "0.0.0.0/0", "fd00::/8"}
	selectors = []string{"a", "a=1", "!b", "a=1,b", "b"}
	hosts     = []host{
		{[]string{"a", "a=1", "!b"}, []string{"10.0.1.1"}},
		{[]string{"a", "b"}, []string{"10.0.2.1", "fd00::1"}},
		{[]string{"b"}, []string{"10.2.0.1"}},
		{[]string{"a", "a=1", "a=1,b", "b"}, []string{"192.0.2.1"}},
		{[]string{"!b"}, []string{"fd00::2"}},
	}
)

func draw(t *rapid.T) policy.Content {
	side := func(cidr *netip.Prefix, selector *string) {
		if rapid.Bool().Draw(t, "by CIDR") {
			*cidr = netip.MustParsePrefix(rapid.SampledFrom(cidrs).Draw(t, "cidr"))
		} else {
			*selector = rapid.SampledFrom(selectors).Draw(t, "selector")
		}
	}
	var c policy.Content
	c.Order.Priority.Set = rapid.Bool().Draw(t, "ordered")
	for range rapid.IntRange(4, 10).Draw(t, "rules") {
		r := policy.Rule{
			Action:   rapid.SampledFrom([]policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log, policy.Redirect}).Draw(t, "action"),
			Protocol: rapid.SampledFrom([]policy.Protocol{policy.Any, policy.TCP, policy.ICMP}).Draw(t, "protocol"),
		}
		if r.Protocol == policy.TCP {
			r.Ports.From = uint16(rapid.IntRange(1, 4).Draw(t, "from"))
			r.Ports.To = uint16(rapid.IntRange(int(r.Ports.From), 4).Draw(t, "to"))
		}
		r.Direction = rapid.SampledFrom([]policy.Direction{"", "", policy.Ingress, policy.Egress}).Draw(t, "direction")
		if r.Action == policy.Redirect {
			r.ProxyPort, r.ListenerPriority = 1, uint8(rapid.IntRange(0, 2).Draw(t, "listener"))
		}
		side(&r.Source, &r.SourceSelector)
		side(&r.Destination, &r.DestinationSelector)
		c.Rules = append(c.Rules, r)
	}
	return c
}

type host struct{ labels, addrs []string }

// eachFlow walks every flow between hosts, at both ends, down the rules that
// the end has of some policies, which are named by their ids.
func eachFlow(hosts []host, of map[string]policy.Content, answered func(flow string, a firstmatch.Answer)) {
	for s, src := range hosts {
		for d, dst := range hosts {
			if s == d {
				continue
			}
			for _, egress := range []bool{true, false} {
				here, there := src, dst
				if !egress {
					here, there = dst, src
				}
				var rules []firstmatch.Rule
				for id, c := range of {
					rules = append(rules, rulesAt(here, egress, id, c)...)
				}
				list := firstmatch.New(rules)
				for _, protocol := range []string{"tcp", "udp", "icmp"} {
					for port := 1; port <= 5; port++ {
						f := firstmatch.Flow{Egress: egress, Node: true, Groups: there.labels, Protocol: protocol, Port: port}
						for _, a := range there.addrs {
							f.Addresses = append(f.Addresses, netip.MustParseAddr(a))
						}
						answered(fmt.Sprint(s, d, egress, protocol, port), list.Decide(f))
					}
				}
			}
		}
	}
}

// rulesAt are a policy's rules of one direction that a host has.
func rulesAt(here host, egress bool, id string, c policy.Content) (rules []firstmatch.Rule) {
	for i, r := range c.Rules {
		own, ownSel, peer, peerSel := r.Source, r.SourceSelector, r.Destination, r.DestinationSelector
		if !egress {
			own, ownSel, peer, peerSel = peer, peerSel, own, ownSel
		}
		on := ownSel != "" && slices.Contains(here.labels, ownSel)
		for _, a := range here.addrs {
			on = on || own.IsValid() && own.Contains(netip.MustParseAddr(a))
		}
		asked := r.Direction == "" || egress == (r.Direction == policy.Egress)
		if !on || !asked {
			continue
		}
		f := firstmatch.Rule{
			Egress: egress, Tier: "normal", Ordered: c.Order.Ordered(), Policy: id, Index: i, CIDR: peer, Protocol: string(r.Protocol),
			From: int(r.Ports.From), To: int(r.Ports.To), Action: string(r.Action), ProxyPort: int(r.ProxyPort), Listener: int(r.ListenerPriority),
		}
		if peerSel != "" {
			f.Groups = []string{peerSel}
		}
		rules = append(rules, f)
	}
	return rules
}

// deciders are the rules that decided a flow.
func deciders(c policy.Content) map[int]bool {
	did := map[int]bool{}
	eachFlow(hosts, map[string]policy.Content{"": c}, func(_ string, a firstmatch.Answer) {
		if a.Rule != nil {
			did[a.Rule.Index] = true
		}
	})
	return did
}

func TestAShadowedRuleNeverDecides(t *testing.T) {
	shadowed := 0
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		again := c.Rules[0] // of two that match the same flows one mostly hides the other
		again.Action, again.ProxyPort, again.ListenerPriority = policy.Deny, 0, 0
		c.Rules = append(c.Rules, again)
		did := deciders(c)
		for _, w := range Content(c) {
			if w.Code != CodeShadowed {
				continue
			}
			var rule int
			_, err := fmt.Sscanf(w.Pointer, "/rules/%d", &rule)
			require.NoError(t, err)
			shadowed++
			require.False(t, did[rule], "%s decides in %+v", w.Pointer, c)
			// Without it nothing changes for the others.
			less := c
			less.Rules = slices.Clone(c.Rules)
			less.Rules[rule].Action = policy.Log
			require.Equal(t, did, deciders(less), "%+v", c)
		}
	})
	require.Positive(t, shadowed)
	t.Logf("%d rules shadowed", shadowed)
}

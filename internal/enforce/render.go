//go:build linux

package enforce

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// ErrInexpressible: a table asks for what nftables cannot do. The error says what
// and which rule.
var ErrInexpressible = errors.New("nftables cannot enforce the table")

// The chains see a packet before addresses are translated, so that the ports and
// peers are those of the flow that was asked for.
const (
	filterPriority = -110
	natPriority    = -100
)

// stage is a base chain and what it makes of an entry.
type stage struct {
	name      string // of the base chain, and what its other chains begin with
	direction datapath.Direction
	hook      hook
	before    []string // rules that come before the look-up
	arrived   *arrived // what is looked up only when it has arrived; nil: nothing
	// missed is what becomes of a packet that a map must have an answer for, and has none:
	// the kernel puts rules in force a moment before the elements of a new map. Empty: as
	// of those that no map is about.
	missed  string
	verdict func(*datapath.Entry) string
}

// arrived is a second base chain, where packets are that have arrived at the node. Until
// then some look as if they were for others.
type arrived struct {
	priority int
	policy   knftables.BaseChainPolicy
	which    []string // matches of the packets that it looks up; the others were looked up, or are no flow of the node
}

const (
	replies = "ct direction reply ct state established,related accept"
	related = "meta l4proto { icmp, icmpv6 } ct state related accept"
	// neighbours are what IPv6 cannot live without on a link.
	neighbours = "icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect, mld2-listener-report } accept"
)

const (
	// elsewhere is what the node forwards, as far as that shows before addresses are
	// translated: a broadcast or multicast may be for others, too, such as the machines on
	// a bridge of the node.
	elsewhere = "fib daddr type { unicast, broadcast, multicast } accept"
	// What elsewhere let pass, and is for the node all the same: an address of others that
	// is translated to the node's, and an address of the node in a VRF, whose routes the
	// look-up of older kernels does not see.
	toMany     = "fib daddr type { broadcast, multicast }"
	translated = "ct status dnat"
	inVRF      = `meta iifkind "vrf"`
)

var stages = []stage{
	{
		name: "egress", direction: datapath.Egress, verdict: filtered, missed: "drop",
		hook:   hook{knftables.FilterType, knftables.OutputHook, filterPriority, knftables.DropPolicy},
		before: []string{`oifname "lo" accept`, fmt.Sprintf("meta mark %#08x accept", AgentMark), replies, related, neighbours},
	},
	{
		name: "ingress", direction: datapath.Ingress, verdict: filtered, missed: "drop",
		hook: hook{knftables.FilterType, knftables.PreroutingHook, filterPriority, knftables.DropPolicy},
		// What the node only forwards is not a flow of its own.
		before:  []string{`iifname "lo" accept`, elsewhere},
		arrived: &arrived{filterPriority, knftables.DropPolicy, []string{translated, toMany, inVRF}},
	},
	{
		name: "proxy_egress", direction: datapath.Egress, verdict: redirected, missed: "drop",
		hook:   hook{knftables.NATType, knftables.OutputHook, natPriority, knftables.AcceptPolicy},
		before: []string{`oifname "lo" accept`, fmt.Sprintf("meta mark %#08x accept", ProxyMark)},
	},
	{
		name: "proxy_ingress", direction: datapath.Ingress, verdict: redirected, missed: "drop",
		hook:   hook{knftables.NATType, knftables.PreroutingHook, natPriority, knftables.AcceptPolicy},
		before: []string{`iifname "lo" accept`, "fib daddr type unicast accept"},
	},
}

// filtered is what a filter does: without an entry a flow is denied.
func filtered(e *datapath.Entry) string {
	if e == nil || e.Verdict == datapath.Deny {
		return "drop"
	}
	return "accept"
}

func redirected(e *datapath.Entry) string {
	if e == nil || e.Verdict != datapath.Redirect {
		return "accept" // as it is
	}
	return "goto " + proxyChain(e.ProxyPort)
}

func proxyChain(port uint16) string { return fmt.Sprintf("proxy_%d", port) }

// Render is the ruleset that answers as the table does. The error is an
// ErrInexpressible, of every entry that nftables has no words for.
func Render(t *Table) (*Ruleset, error) {
	if err := expressible(t); err != nil {
		return nil, err
	}
	owners := t.owners()
	r := &Ruleset{}
	proxies := map[uint16]bool{}
	redirects := map[datapath.Direction]bool{}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Verdict == datapath.Redirect {
			redirects[e.Direction] = true
			if !proxies[e.ProxyPort] {
				proxies[e.ProxyPort] = true
				r.chains = append(r.chains, &chain{
					name:  proxyChain(e.ProxyPort),
					rules: []string{fmt.Sprintf("meta l4proto { tcp, udp, sctp } redirect to :%d", e.ProxyPort)},
				})
			}
		}
	}
	for _, s := range stages {
		if s.hook.kind == knftables.FilterType || redirects[s.direction] {
			(&renderer{Ruleset: r, stage: s, known: map[string]bool{}}).render(t, owners)
		}
	}
	r.sort()
	return r, nil
}

// expressible refuses what would be enforced as something else.
func expressible(t *Table) error {
	var faults []error
	said := map[string]bool{}
	refuse := func(e *datapath.Entry, what string) {
		text := fmt.Sprintf("rule %d of policy %s: %s", e.Rule.Index, e.Rule.Policy, what)
		if !said[text] {
			said[text] = true
			faults = append(faults, errors.New(text))
		}
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Auth == datapath.AuthRequired {
			refuse(e, "it requires authentication, which a packet filter cannot check; remove auth, or enforce this node with what can")
		}
		if e.Verdict == datapath.Redirect && !slices.Contains(ported, e.Protocol) {
			refuse(e, "it redirects "+e.Protocol.String()+", but only tcp, udp and sctp have a port to redirect to; name one of these")
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInexpressible, errors.Join(faults...))
}

// owners are the addresses that nodes have, each with the number of its
// identity. Of nodes that share one, the first by id has it.
func (t *Table) owners() map[netip.Addr]datapath.ID {
	type claim struct {
		Owned
		id datapath.ID
	}
	first := map[netip.Addr]claim{}
	for i, identity := range t.Identities {
		for _, o := range identity.Addresses {
			if c, taken := first[o.Address]; !taken || o.Node < c.Node {
				first[o.Address] = claim{o, datapath.ID(i + 1)}
			}
		}
	}
	ids := make(map[netip.Addr]datapath.ID, len(first))
	for a, c := range first {
		ids[a] = c.id
	}
	return ids
}

// renderer makes the chains and maps of one stage.
type renderer struct {
	*Ruleset
	stage
	known map[string]bool // classes made so far
}

func (r *renderer) render(t *Table, owners map[netip.Addr]datapath.ID) {
	entries := make([][]*datapath.Entry, len(t.Identities)+1)
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Direction == r.direction {
			entries[e.Identity] = append(entries[e.Identity], e)
		}
	}
	anyone := answersOf(entries[datapath.AnyIdentity])
	last := r.name + "_any"
	r.class(last, anyone, r.verdict)
	decided := func(e *datapath.Entry) string {
		if e == nil {
			return "goto " + last
		}
		return r.verdict(e)
	}
	classes := make([]string, len(entries)) // verdicts that lead to them; empty: any identity's
	for i, own := range entries {
		if i > 0 && len(own) > 0 {
			classes[i] = r.class("", answersOf(own).beside(anyone), decided)
		}
	}
	four, six := r.name+"_ip", r.name+"_ip6"
	r.maps = append(
		r.maps,
		&vmap{four, "ipv4_addr", peers(t, owners, classes, netip.Addr.Is4)},
		&vmap{six, "ipv6_addr", peers(t, owners, classes, netip.Addr.Is6)},
	)
	side := map[datapath.Direction]string{datapath.Egress: "daddr", datapath.Ingress: "saddr"}[r.direction]
	lookUp := []string{"ip " + side + " vmap @" + four, "ip6 " + side + " vmap @" + six, "goto " + last}
	if r.arrived == nil {
		r.chains = append(r.chains, &chain{name: r.name, hook: &r.hook, rules: slices.Concat(r.before, lookUp)})
		return
	}
	flow, input := r.name+"_flow", []string{`iifname "lo" accept`}
	for _, match := range r.arrived.which {
		input = append(input, match+" goto "+flow)
	}
	r.chains = append(
		r.chains,
		&chain{name: r.name, hook: &r.hook, rules: append(slices.Clone(r.before), "goto "+flow)},
		&chain{
			name: r.name + "_input", rules: append(input, "accept"),
			hook: &hook{knftables.FilterType, knftables.InputHook, r.arrived.priority, r.arrived.policy},
		},
		&chain{name: flow, rules: slices.Concat([]string{replies, related, neighbours}, lookUp)},
	)
}

// class is the verdict that leads to a chain which answers so. Without a name it
// is named by what it does, so identities that are answered alike share one,
// and one that is there already is right.
func (r *renderer) class(name string, a answers, verdict func(*datapath.Entry) string) string {
	other := verdict(a.other)
	whole := r.missed != "" && other != r.missed
	var elements []element
	var looked []string
	for _, p := range ported {
		spans := merged(a.ports[p], verdict)
		if len(spans) == 1 && spans[0].value == other {
			continue
		}
		looked = append(looked, p.String())
		for _, s := range spans {
			if whole || s.value != other {
				elements = append(elements, element{p.String() + concatenation + interval(s.from, s.to, portText), s.value})
			}
		}
	}
	var rules []string
	if icmp := verdict(a.icmp); icmp != other {
		rules = append(rules, "meta l4proto { icmp, icmpv6 } "+icmp)
	}
	rules = append(rules, other)
	if len(elements) == 0 && len(rules) == 1 && name == "" {
		return other
	}
	digest := r.name + "_" + digest(rules, elements)
	if name == "" {
		name = digest
	}
	if r.known[name] {
		return "goto " + name
	}
	r.known[name] = true
	if len(elements) > 0 {
		look := r.portsOf(looked, digest)
		if whole {
			look = append(look, "meta l4proto { "+strings.Join(looked, ", ")+" } "+r.missed)
		}
		rules = slices.Insert(rules, 0, look...)
		if !r.known["@"+digest] {
			r.known["@"+digest] = true
			r.maps = append(r.maps, &vmap{digest, "inet_proto . inet_service", elements})
		}
	}
	r.chains = append(r.chains, &chain{name: name, rules: rules})
	return "goto " + name
}

// portsOf are the rules that look protocol and port up in a map. A packet that has arrived
// may have another port than its flow was asked for: of those, the connection knows it.
func (r *renderer) portsOf(protocols []string, vmap string) (rules []string) {
	if r.arrived == nil {
		return []string{"meta l4proto . th dport vmap @" + vmap}
	}
	for _, p := range protocols {
		rules = append(rules, fmt.Sprintf("meta l4proto %s meta l4proto . ct original proto-dst vmap @%s", p, vmap))
	}
	return append(rules, "ct state invalid,untracked meta l4proto . th dport vmap @"+vmap)
}

// merged are the verdicts of all ports.
func merged(spans []span[port, *datapath.Entry], verdict func(*datapath.Entry) string) (out []span[port, string]) {
	for _, s := range spans {
		v := verdict(s.value)
		if n := len(out); n > 0 && out[n-1].value == v {
			out[n-1].to = s.to
			continue
		}
		out = append(out, span[port, string]{s.from, s.to, v})
	}
	return out
}

// digest names what chains and maps hold.
func digest(rules []string, elements []element) string {
	h := sha256.New()
	for _, rule := range rules {
		fmt.Fprintln(h, rule)
	}
	for _, e := range elements {
		fmt.Fprintln(h, e.key, e.verdict)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// peers are the addresses of one family whose identity has a class: those of
// nodes, and what nodes leave of blocks.
func peers(t *Table, owners map[netip.Addr]datapath.ID, classes []string, family func(netip.Addr) bool) []element {
	var nested []span[netip.Addr, string]
	for i, id := range t.Identities {
		if id.Block.IsValid() && family(id.Block.Addr()) {
			nested = append(nested, span[netip.Addr, string]{id.Block.Addr(), lastOf(id.Block), classes[i+1]})
		}
	}
	for a, id := range owners {
		if family(a) {
			nested = append(nested, span[netip.Addr, string]{a, a, classes[id]})
		}
	}
	// A block of one address that a node owns is that node.
	slices.SortStableFunc(nested, func(a, b span[netip.Addr, string]) int {
		return cmp.Or(a.from.Compare(b.from), b.to.Compare(a.to))
	})
	var out []element
	for _, s := range flatten(nested) {
		if s.value != "" {
			out = append(out, element{interval(s.from, s.to, netip.Addr.String), s.value})
		}
	}
	return out
}

// lastOf is the last address of a CIDR.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

package datapath_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/oracle/firstmatch"
	"github.com/edictdev/edict/policy"
)

// chance draws a number from 0 to n-1.
type chance func(n int) int

func pick[T any](c chance, of ...T) T { return of[c(len(of))] }

// world is a node's rules and its peers, as the table and as the judge take
// them. Rules are named by their Ref, peers by theirs.
type world struct {
	c     chance
	rules map[int]firstmatch.Rule
	nodes map[string]firstmatch.Flow // groups and addresses
	said  int                        // rules and nodes made so far
	open  bool                       // every policy says default_deny: false
	cidrs bool                       // most peers are CIDRs
	wide  bool                       // most rules have no ports
	pass  bool                       // many rules pass
	flat  bool                       // most rules stand at one level
}

var (
	groups = []string{"a", "b", "c", "d"}
	cidrs  = parsePrefixes("0.0.0.0/0 10.0.0.0/8 10.1.0.0/16 10.1.1.0/24 10.1.1.1/32 192.0.2.0/24 fd00::/8 fd00:1::/32")
	// owned are addresses of nodes, outside those that no node owns.
	owned   = parseAddrs("10.0.0.1 10.1.0.1 10.1.1.1 10.1.1.7 192.0.2.1 203.0.113.1 fd00:1::1")
	outside = parseAddrs("10.0.0.9 10.1.0.9 10.1.1.9 192.0.2.9 198.51.100.1 fd00::9 fd00:1::9 2001:db8::1")
)

func parsePrefixes(text string) (all []netip.Prefix) {
	for _, s := range strings.Fields(text) {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func parseAddrs(text string) (all []netip.Addr) {
	for _, s := range strings.Fields(text) {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

func newWorld(c chance) *world {
	w := &world{c: c, rules: map[int]firstmatch.Rule{}, nodes: map[string]firstmatch.Flow{}, open: c(8) == 0, cidrs: c(3) == 0, wide: c(2) == 0, pass: c(2) == 0, flat: c(3) == 0}
	for range 4 + c(24) {
		w.addRule()
	}
	for range 1 + c(5) {
		w.addNode()
	}
	return w
}

func (w *world) addRule() int {
	c := w.c
	r := firstmatch.Rule{
		Egress: c(6) > 0, Tier: pick(c, "admin", "normal", "baseline"), Priority: c(4), Ordered: c(3) == 0,
		Policy: fmt.Sprintf("p%d", c(4)), Index: w.said, Open: w.open || c(6) == 0,
		Protocol: pick(c, "any", "any", "tcp", "tcp", "tcp", "tcp", "udp", "udp", "sctp", "icmp"),
		Action:   pick(c, "deny", "deny", "allow", "allow", "allow", "redirect", "redirect", "pass", "pass", "log"),
	}
	w.said++
	kind := c(10)
	if w.cidrs && kind < 7 && c(4) > 0 {
		kind = 9
	}
	switch kind {
	case 0, 1, 2:
	case 3, 4, 5:
		r.Groups = []string{pick(c, groups...)}
	case 6:
		r.Groups = []string{pick(c, groups...), pick(c, groups...)}
	case 7:
		r.Groups, r.CIDR = []string{pick(c, groups...)}, pick(c, cidrs...)
	default:
		r.CIDR = pick(c, cidrs...)
	}
	if w.flat && c(5) > 0 {
		r.Tier, r.Priority, r.Ordered = "normal", 1, false
	}
	if w.pass && c(3) == 0 {
		r.Action = "pass"
	}
	if r.Protocol != "icmp" {
		r.From, r.To = w.ports()
	}
	if r.Action == "redirect" {
		r.ProxyPort, r.Listener = 15000+c(2), pick(c, 0, 0, 1, 101, 126)
	}
	if r.Action == "allow" || r.Action == "redirect" {
		r.Auth = pick(c, "", "", "", "required", "required", "disabled")
	}
	w.rules[r.Index] = r
	return r.Index
}

func (w *world) ports() (from, to int) {
	c := w.c
	if w.wide && c(3) > 0 {
		return 0, 0
	}
	switch c(8) {
	case 0, 1:
		return 0, 0
	case 2:
		return 1, 65535
	case 3:
		from = 1 + c(20)
		return from, from
	case 4:
		from = 1 + c(65535)
		return from, from + c(65536-from)
	}
	from = 1 + c(20)
	return from, from + c(30)
}

func (w *world) addNode() string {
	n := firstmatch.Flow{Node: true}
	for _, g := range groups {
		if w.c(2) == 0 {
			n.Groups = append(n.Groups, g)
		}
	}
	for range w.c(3) {
		n.Addresses = append(n.Addresses, pick(w.c, owned...))
	}
	name := fmt.Sprintf("n%d", w.said)
	w.said++
	w.nodes[name] = n
	return name
}

var tierOf = map[string]datapath.Tier{"admin": datapath.Admin, "normal": datapath.Normal, "baseline": datapath.Baseline}

// rule is a rule as the table takes it.
func tableRule(r firstmatch.Rule) datapath.Rule {
	t := datapath.Rule{
		Ref: datapath.Ref{Policy: r.Policy, Revision: "r-" + r.Policy, Index: r.Index}, Direction: directionOf(r.Egress),
		Tier: tierOf[r.Tier], Priority: uint32(r.Priority), Ordered: r.Ordered,
		Peer:      datapath.Peer{Any: len(r.Groups) == 0 && !r.CIDR.IsValid(), CIDR: r.CIDR},
		Ports:     policy.Ports{From: uint16(r.From), To: uint16(r.To)},
		ProxyPort: uint16(r.ProxyPort), ListenerPriority: uint8(r.Listener), NoDefaultDeny: r.Open,
	}
	for _, g := range r.Groups {
		t.Peer.Selectors = append(t.Peer.Selectors, policy.Expr{{Op: policy.Exists, Key: g}})
	}
	t.Protocol, _ = datapath.ParseProtocol(r.Protocol)
	t.Verdict, _ = datapath.ParseVerdict(r.Action)
	t.Auth, _ = datapath.ParseAuth(r.Auth)
	return t
}

func directionOf(egress bool) datapath.Direction {
	if egress {
		return datapath.Egress
	}
	return datapath.Ingress
}

// identity is a node as the table takes it: its addresses, or the rule CIDRs that
// hold them.
func (w *world) identity(name string) datapath.Identity {
	n := w.nodes[name]
	id := datapath.Identity{Name: name}
	for _, g := range n.Groups {
		id.Labels = append(id.Labels, policy.Label{Key: g, Value: "yes"})
	}
	for i, a := range n.Addresses {
		if i%2 == 0 {
			id.CIDRs = append(id.CIDRs, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		for _, c := range cidrs {
			if c.Contains(a) {
				id.CIDRs = append(id.CIDRs, c)
			}
		}
	}
	return id
}

// all is the whole world in some order.
func (w *world) all() (rules []datapath.Rule, ids []datapath.Identity) {
	for _, r := range w.rules {
		rules = append(rules, tableRule(r))
	}
	for name := range w.nodes {
		ids = append(ids, w.identity(name))
	}
	return rules, ids
}

func (w *world) judge() firstmatch.List {
	var rules []firstmatch.Rule
	for _, r := range w.rules {
		rules = append(rules, r)
	}
	slices.SortFunc(rules, func(a, b firstmatch.Rule) int { return a.Index - b.Index })
	return firstmatch.New(rules)
}

// flow is a look-up: of a node by name, or of an address that no node owns.
type flow struct {
	firstmatch.Flow
	node string
}

func (w *world) flow() flow {
	c := w.c
	f := flow{}
	if names := w.names(); len(names) > 0 && c(5) > 1 && !(w.cidrs && c(2) == 0) {
		f.node = pick(c, names...)
		f.Flow = w.nodes[f.node]
	} else {
		f.Addresses = []netip.Addr{pick(c, outside...)}
	}
	f.Egress = c(6) > 0
	f.Protocol = pick(c, "tcp", "tcp", "tcp", "udp", "udp", "sctp", "icmp", "47")
	switch c(4) {
	case 0:
		f.Port = pick(c, 0, 65535, c(65536))
	case 1: // at the edge of a rule's range
		if r, ok := w.rules[c(w.said)]; ok && r.To > 0 {
			f.Port = min(65535, pick(c, r.From-1, r.From, r.To, r.To+1))
		}
	default:
		f.Port = c(34)
	}
	return f
}

func (w *world) names() []string {
	var names []string
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f flow) protocol() datapath.Protocol {
	if f.Protocol == "47" {
		return 47
	}
	p, _ := datapath.ParseProtocol(f.Protocol)
	return p
}

// id is the identity a data path would look up.
func (f flow) id(t *datapath.Table) datapath.ID {
	if !f.Node {
		return t.Resolve(f.Addresses[0])
	}
	id, _ := t.ID(f.node)
	return id
}

func (f flow) lookup(t *datapath.Table) (datapath.Entry, bool) {
	return t.Lookup(directionOf(f.Egress), f.id(t), f.protocol(), uint16(f.Port))
}

// batch changes the world at random and is the same changes for a state.
func (w *world) batch() (b datapath.Batch) {
	kinds := 1 + w.c(3) // of 1 identities, 2 rules, 3 both
	if kinds&1 != 0 {
		for _, name := range w.names() {
			if w.c(4) == 0 {
				b.RemoveIdentities = append(b.RemoveIdentities, name)
				if w.c(4) > 0 {
					delete(w.nodes, name)
					continue
				}
				if w.c(2) == 0 { // another takes its name
					other := w.addNode()
					w.nodes[name] = w.nodes[other]
					delete(w.nodes, other)
				}
				b.AddIdentities = append(b.AddIdentities, w.identity(name))
			}
		}
		for range w.c(4) {
			b.AddIdentities = append(b.AddIdentities, w.identity(w.addNode()))
		}
	}
	if kinds&2 != 0 {
		for i := range w.said {
			if r, ok := w.rules[i]; ok && w.c(4) == 0 {
				delete(w.rules, i)
				t := tableRule(r)
				b.RemoveRules = append(b.RemoveRules, datapath.RuleName{Ref: t.Ref, Direction: t.Direction})
			}
		}
		for range w.c(5) {
			b.AddRules = append(b.AddRules, tableRule(w.rules[w.addRule()]))
		}
	}
	return b
}

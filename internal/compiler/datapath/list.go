package datapath

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Head is the revision of a policy that is in force.
type Head struct {
	Policy   uuid.UUID
	Revision policy.Revision
}

// Assumption is a rule that a node enforces for want of an address: its CIDR
// on the node's side might hold the node, or might not.
type Assumption struct {
	Rule Ref
	CIDR netip.Prefix
}

// NodeList is what a node enforces.
type NodeList struct {
	Rules []Rule
	// Closed has the node deny in both directions what no rule decides
	// (Options.Closed).
	Closed  bool
	Assumed []Assumption // in the order of policies
}

// List is what a node enforces of some policies: egress rules where it is on a
// rule's source side, ingress rules where it is on the destination side; a rule that
// says a direction gives a rule of that one alone. A node is on a side when the policy's selector for it matches, and the rule's own if
// it has one; where the rule has a CIDR there, one of the node's addresses must
// lie in it. A node without addresses lies in every CIDR, and the assumptions
// say where that mattered.
//
// The peer of a rule is what it says of the other side: a CIDR holds whoever is
// in it, a selector those nodes that the policy's selector for that side holds
// too, so that both ends of a flow mean the same flow. To a node whose addresses
// are all of a CIDR's family, the CIDR of all addresses is any peer.
//
// Where nothing of the policies is ordered policy, the node follows the node
// contract: the selectors only choose the policy's nodes, which are on a side where
// its CIDR holds one of their addresses; and the list is closed, also where the node
// has no policy. A policy in audit mode is as if it were not there.
func List(n policy.Node, heads []Head) NodeList {
	return listed(n, InForce(heads), Plain(heads))
}

// Plain reports whether nothing of the policies in force is ordered policy.
func Plain(heads []Head) bool {
	return !slices.ContainsFunc(heads, func(h Head) bool { return !h.audit() && h.Revision.Content().Extended() })
}

// InForce are the policies among some that are not in audit mode.
func InForce(heads []Head) []Head {
	if !slices.ContainsFunc(heads, Head.audit) {
		return heads
	}
	return slices.DeleteFunc(slices.Clone(heads), Head.audit)
}

// Enforced is the policy as it would be if it were in force.
func (h Head) Enforced() Head {
	h.Revision.Order.Audit = false
	return h
}

func (h Head) audit() bool { return h.Revision.Order.Audit }

// listed is List of policies of a node that has these among others: plain says
// whether nothing of all of them is ordered policy.
func listed(n policy.Node, heads []Head, plain bool) NodeList {
	list, most := NodeList{Closed: plain}, 0
	for _, h := range heads {
		most += len(h.Revision.Rules)
	}
	list.Rules = slices.Grow(list.Rules, most) // each is in one direction, most of the time
	for _, h := range heads {
		l := newLister(n, h, plain)
		for i, r := range h.Revision.Rules {
			rule := l.rule(i, r)
			if r.AskedAt(policy.Egress) && l.on(r.Source, r.SourceSelector, h.Revision.Selector.Source, rule.Ref) {
				rule.Direction = Egress
				rule.Peer = l.peer(r.Destination, r.DestinationSelector, h.Revision.Selector.Destination)
				list.Rules = append(list.Rules, rule)
			}
			if r.AskedAt(policy.Ingress) && l.on(r.Destination, r.DestinationSelector, h.Revision.Selector.Destination, rule.Ref) {
				rule.Direction = Ingress
				rule.Peer = l.peer(r.Source, r.SourceSelector, h.Revision.Selector.Source)
				list.Rules = append(list.Rules, rule)
			}
		}
		list.Assumed = append(list.Assumed, l.assumed...)
	}
	return list
}

// lister makes the rules of one policy for one node.
type lister struct {
	node     policy.Node
	bySide   bool // the policy's selectors say on which side the node is
	head     Head
	policy   string // the head's ids as text, once for all its rules
	revision string
	tier     Tier
	priority uint32
	assumed  []Assumption
}

func newLister(n policy.Node, h Head, plain bool) *lister {
	l := &lister{node: n, bySide: !plain, head: h, policy: h.Policy.String(), revision: h.Revision.ID.String()}
	l.tier, l.priority = level(h.Revision.Order)
	return l
}

func level(o policy.Order) (Tier, uint32) {
	name, priority := o.Level()
	tier, _ := ParseTier(string(name)) // the closed sets are one
	return tier, priority
}

// rule is everything of a rule but its direction and peer. The closed sets of
// package policy are those of this one, so parsing never fails.
func (l *lister) rule(index int, r policy.Rule) Rule {
	verdict, _ := ParseVerdict(string(r.Action))
	protocol, _ := ParseProtocol(string(r.Protocol))
	auth, _ := ParseAuth(string(r.Auth))
	return Rule{
		Ref:  Ref{Policy: l.policy, Revision: l.revision, Index: index},
		Tier: l.tier, Priority: l.priority, Ordered: l.head.Revision.Order.Ordered(),
		Protocol: protocol, Ports: r.Ports,
		Verdict: verdict, ProxyPort: r.ProxyPort, ListenerPriority: r.ListenerPriority, Auth: auth,
		NoDefaultDeny: l.head.Revision.Order.NoDefaultDeny,
	}
}

// on reports whether the node is on a side of a rule.
func (l *lister) on(cidr netip.Prefix, own string, side policy.Expr, ref Ref) bool {
	if l.bySide && !side.Matches(l.node.Labels) || own != "" && !parsed(own).Matches(l.node.Labels) {
		return false
	}
	if !cidr.IsValid() {
		return true
	}
	if len(l.node.Addresses) == 0 {
		l.assumed = append(l.assumed, Assumption{ref, cidr})
		return true
	}
	return slices.ContainsFunc(l.node.Addresses, cidr.Contains)
}

func (l *lister) peer(cidr netip.Prefix, own string, side policy.Expr) Peer {
	switch {
	case own != "":
		return Peer{Selectors: []policy.Expr{side, parsed(own)}}
	case cidr.Bits() == 0 && l.only(cidr.Addr().Is4()):
		return Peer{Any: true}
	}
	return Peer{CIDR: cidr}
}

// only reports whether the node has addresses, all of one family.
func (l *lister) only(v4 bool) bool {
	for _, a := range l.node.Addresses {
		if a.Is4() != v4 {
			return false
		}
	}
	return len(l.node.Addresses) > 0
}

// parsed reads a rule's selector, which is canonical and so without faults.
func parsed(text string) policy.Expr {
	e, _ := policy.ParseExpr(text)
	return e
}

// Kinds sorts nodes into the identities that a list can tell apart: by their
// labels, and by which CIDRs of its peers hold one of their addresses. It knows
// nodes that some rule's peer holds; to the others, rules for any peer alone
// apply. It never changes.
type Kinds struct {
	cidrs []netip.Prefix // of peers, sorted by text
	named []Peer         // different peers by selector

	at           map[netip.Prefix]int32 // of cidrs
	bits4, bits6 []int                  // lengths of cidrs, by family
}

// NewKinds are those of a list.
func NewKinds(rules []Rule) *Kinds {
	k, seen := &Kinds{at: make(map[netip.Prefix]int32, changes(rules))}, map[string]bool{}
	for i := range rules {
		switch p := &rules[i].Peer; {
		case p.Any:
		case p.CIDR.IsValid():
			k.at[p.CIDR] = 0
		case !seen[p.key()]:
			seen[p.key()] = true
			k.named = append(k.named, *p)
		}
	}
	k.cidrs = byText(k.at)
	for i, c := range k.cidrs {
		k.at[c] = int32(i)
	}
	k.bits4, k.bits6 = lengths(maps.Keys(k.at))
	return k
}

// Looks is about how many looks it takes to find a node's identity.
func (k *Kinds) Looks() int { return 1 + len(k.named) + len(k.bits4) + len(k.bits6) }

// changes is how often the peer's CIDR is another than that of the rule before: about
// how many there are.
func changes(rules []Rule) (n int) {
	var last netip.Prefix
	for i := range rules {
		if c := rules[i].Peer.CIDR; c.IsValid() && c != last {
			n, last = n+1, c
		}
	}
	return n
}

// Of is the identity of a node. Its labels are the node's own.
func (k *Kinds) Of(n policy.Node) (Identity, bool) {
	id, ok := k.of(n, k.selects(n.Labels))
	if ok {
		id.Name = identityName(id.Labels, id.CIDRs)
	}
	return id, ok
}

// Know reports whether some rule's peer holds a node.
func (k *Kinds) Know(n policy.Node) bool {
	_, ok := k.of(n, k.selects(n.Labels))
	return ok
}

// of is an identity without a name.
func (k *Kinds) of(n policy.Node, selected bool) (Identity, bool) {
	id := Identity{Labels: n.Labels, CIDRs: k.holding(n.Addresses)}
	if !selected && len(id.CIDRs) == 0 {
		return Identity{}, false
	}
	return id, true
}

// selects reports whether a peer by selector holds nodes of these labels.
func (k *Kinds) selects(labels policy.Labels) bool {
	id := Identity{Labels: labels}
	return slices.ContainsFunc(k.named, func(p Peer) bool { return p.holds(&id) })
}

// holding are the CIDRs that hold one of the addresses; without addresses, all.
func (k *Kinds) holding(addrs policy.Addresses) []netip.Prefix {
	if len(addrs) == 0 {
		return k.cidrs
	}
	var at []int32
	for _, a := range addrs {
		bits := k.bits6
		if a.Is4() {
			bits = k.bits4
		}
		for _, n := range bits {
			if c, err := a.Prefix(n); err == nil {
				if i, ok := k.at[c]; ok {
					at = append(at, i)
				}
			}
		}
	}
	slices.Sort(at)
	var in []netip.Prefix
	for _, i := range slices.Compact(at) {
		in = append(in, k.cidrs[i])
	}
	return in
}

// identityName is unlike any CIDR, which is how blocks are named.
func identityName(labels policy.Labels, cidrs []netip.Prefix) string {
	name := append(labels.AppendKey([]byte("{")), '}')
	for i, c := range cidrs {
		if i > 0 {
			name = append(name, ',')
		}
		name = c.AppendTo(name)
	}
	return string(name)
}

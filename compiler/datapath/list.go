package datapath

import (
	"net/netip"
	"slices"
	"strings"

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

// List is what a node enforces of some policies: egress rules where it is on a
// rule's source side, ingress rules where it is on the destination side. A node
// is on a side when the policy's selector for it matches, and the rule's own if
// it has one; where the rule has a CIDR there, one of the node's addresses must
// lie in it. A node without addresses lies in every CIDR, and the assumptions
// say where that mattered.
//
// The peer of a rule is what it says of the other side: a CIDR holds whoever is
// in it, a selector those nodes that the policy's selector for that side holds
// too, so that both ends of a flow mean the same flow. To a node whose addresses
// are all of a CIDR's family, the CIDR of all addresses is any peer.
func List(n policy.Node, heads []Head) (rules []Rule, assumed []Assumption) {
	for _, h := range heads {
		l := lister{node: n, head: h}
		l.tier, l.priority = level(h.Revision.Order)
		for i, r := range h.Revision.Rules {
			rule := l.rule(i, r)
			if l.on(r.Source, r.SourceSelector, h.Revision.Selector.Source, rule.Ref) {
				rule.Direction = Egress
				rule.Peer = l.peer(r.Destination, r.DestinationSelector, h.Revision.Selector.Destination)
				rules = append(rules, rule)
			}
			if l.on(r.Destination, r.DestinationSelector, h.Revision.Selector.Destination, rule.Ref) {
				rule.Direction = Ingress
				rule.Peer = l.peer(r.Source, r.SourceSelector, h.Revision.Selector.Source)
				rules = append(rules, rule)
			}
		}
		assumed = append(assumed, l.assumed...)
	}
	return rules, assumed
}

// lister makes the rules of one policy for one node.
type lister struct {
	node     policy.Node
	head     Head
	tier     Tier
	priority uint32
	assumed  []Assumption
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
		Ref:  Ref{Policy: l.head.Policy.String(), Revision: l.head.Revision.ID.String(), Index: index},
		Tier: l.tier, Priority: l.priority, Ordered: l.head.Revision.Order.Ordered(),
		Protocol: protocol, Ports: r.Ports,
		Verdict: verdict, ProxyPort: r.ProxyPort, ListenerPriority: r.ListenerPriority, Auth: auth,
		NoDefaultDeny: l.head.Revision.Order.NoDefaultDeny,
	}
}

// on reports whether the node is on a side of a rule.
func (l *lister) on(cidr netip.Prefix, own string, side policy.Expr, ref Ref) bool {
	if !side.Matches(l.node.Labels) || own != "" && !parsed(own).Matches(l.node.Labels) {
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
	cidrs []netip.Prefix // of peers, sorted
	named []Peer         // different peers by selector
}

// NewKinds are those of a list.
func NewKinds(rules []Rule) *Kinds {
	k, seen := &Kinds{}, map[string]bool{}
	for _, r := range rules {
		key := r.Peer.key()
		if r.Peer.Any || seen[key] {
			continue
		}
		seen[key] = true
		if r.Peer.CIDR.IsValid() {
			k.cidrs = append(k.cidrs, r.Peer.CIDR)
		} else {
			k.named = append(k.named, r.Peer)
		}
	}
	slices.SortFunc(k.cidrs, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	k.cidrs = slices.Compact(k.cidrs)
	return k
}

// Of is the identity of a node. Its labels are the node's own.
func (k *Kinds) Of(n policy.Node) (Identity, bool) {
	return k.of(n, k.selects(n.Labels))
}

func (k *Kinds) of(n policy.Node, selected bool) (Identity, bool) {
	id := Identity{Labels: n.Labels, CIDRs: k.holding(n.Addresses)}
	if !selected && len(id.CIDRs) == 0 {
		return Identity{}, false
	}
	id.Name = identityName(id.Labels, id.CIDRs)
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
	var in []netip.Prefix
	for _, c := range k.cidrs {
		if slices.ContainsFunc(addrs, c.Contains) {
			in = append(in, c)
		}
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

// Population is nodes sorted by kind.
type Population struct {
	Identities []Identity // by name
	Members    map[string][]policy.Node
}

// Sort sorts nodes, in the order in which they are given.
func (k *Kinds) Sort(nodes []policy.Node) Population {
	p := Population{Members: map[string][]policy.Node{}}
	selected := map[*policy.Label]bool{} // nodes share label sets
	for _, n := range nodes {
		var at *policy.Label
		if len(n.Labels) > 0 {
			at = &n.Labels[0]
		}
		yes, known := selected[at]
		if !known {
			yes = k.selects(n.Labels)
			selected[at] = yes
		}
		id, ok := k.of(n, yes)
		if !ok {
			continue
		}
		if p.Members[id.Name] == nil {
			p.Identities = append(p.Identities, id)
		}
		p.Members[id.Name] = append(p.Members[id.Name], n)
	}
	slices.SortFunc(p.Identities, func(a, b Identity) int { return strings.Compare(a.Name, b.Name) })
	return p
}

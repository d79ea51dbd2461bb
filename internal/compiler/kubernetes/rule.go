package kubernetes

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/policy"
)

// peer is who is at the other end: nodes by their labels, or a CIDR.
type peer struct {
	nodes    policy.Expr
	machines bool // the nodes are machines, and not pods
	cidr     netip.Prefix
}

// anyone are all peers, pods and others, of both address families.
func anyone() []peer {
	return []peer{{cidr: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}, {cidr: netip.PrefixFrom(netip.IPv6Unspecified(), 0)}}
}

// port is the traffic of a rule.
type port struct {
	protocol policy.Protocol
	ports    policy.Ports
}

var (
	everyPort    = policy.Ports{From: 1, To: 65535}
	everyTraffic = []port{{protocol: policy.Any}}
)

// rule is a rule of either kind of object: one direction, seen from the subject.
type rule struct {
	action policy.Action
	peers  []peer
	ports  []port
}

// section is one direction of an object.
type section struct {
	subject policy.Expr
	ingress bool
	rules   []rule
}

// direction is that of the section's rules, and its name in slugs.
func (s *section) direction() policy.Direction {
	if s.ingress {
		return policy.Ingress
	}
	return policy.Egress
}

// others are the nodes that may be at the other end. A rule's own selector never goes
// beyond its policy's.
func (s *section) others() policy.Expr {
	for _, r := range s.rules {
		if slices.ContainsFunc(r.peers, func(p peer) bool { return p.machines }) {
			return podsAndMachines()
		}
	}
	return pods()
}

// closes reports whether a rule does more than allow.
func (s *section) closes() bool {
	return slices.ContainsFunc(s.rules, func(r rule) bool { return r.action != policy.Allow })
}

// content is the section as a revision at a place in the order. The rules stand
// in the order of the section's; each once. They end with the first that is too many.
func (s *section) content(tier policy.Tier, priority uint32) policy.Content {
	c := policy.Content{
		Selector: policy.Selector{Source: s.subject, Destination: s.others()},
		Order:    policy.Order{Tier: tier, Priority: policy.Priority{N: priority, Set: true}, NoDefaultDeny: true},
	}
	if s.ingress {
		c.Selector.Source, c.Selector.Destination = c.Selector.Destination, c.Selector.Source
	}
	seen := map[policy.Rule]bool{}
	for _, r := range s.rules {
		traffic := once(r.ports)
		for _, one := range s.ends(r) {
			for _, t := range traffic {
				if one.Protocol, one.Ports = t.protocol, t.ports; seen[one] {
					continue
				}
				seen[one] = true
				if c.Rules = append(c.Rules, one); len(c.Rules) > policy.MaxRules {
					return c
				}
			}
		}
	}
	return c
}

// once are the first of each.
func once[T comparable](all []T) []T {
	seen := make(map[T]bool, len(all))
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool {
		was := seen[x]
		seen[x] = true
		return was
	})
}

// ends are the rules that a rule becomes, for each peer, without their traffic.
func (s *section) ends(r rule) []policy.Rule {
	all := make([]policy.Rule, len(r.peers))
	for i, p := range r.peers {
		all[i] = s.end(r.action, p)
	}
	return once(all)
}

func (s *section) end(action policy.Action, p peer) policy.Rule {
	r := policy.Rule{Action: action, Direction: s.direction()}
	other := ""
	if !p.cidr.IsValid() {
		other = p.nodes.Canonical()
	}
	if s.ingress {
		r.Source, r.SourceSelector = p.cidr, other
		r.DestinationSelector = s.subject.Canonical()
	} else {
		r.SourceSelector = s.subject.Canonical()
		r.Destination, r.DestinationSelector = p.cidr, other
	}
	return r
}

// cidr reads a prefix; bits behind it do not count, as in Kubernetes.
func (v value) cidr() (netip.Prefix, bool) {
	text, ok := v.text()
	if !ok {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		v.note("%.64q is not a CIDR", text)
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// without appends what remains of a prefix when others are taken out of it: the
// fewest prefixes, by address. It ends when they are more than a policy can say.
func without(to []netip.Prefix, whole netip.Prefix, out []netip.Prefix) []netip.Prefix {
	var within []netip.Prefix
	for _, o := range out {
		if o.Bits() <= whole.Bits() && o.Contains(whole.Addr()) {
			return to
		}
		if whole.Overlaps(o) {
			within = append(within, o)
		}
	}
	switch {
	case len(to) > policy.MaxRules:
		return to
	case len(within) == 0:
		return append(to, whole)
	}
	bits := whole.Bits() + 1
	low := netip.PrefixFrom(whole.Addr(), bits)
	upper := whole.Addr().AsSlice()
	upper[(bits-1)/8] |= 1 << (7 - (bits-1)%8)
	addr, _ := netip.AddrFromSlice(upper)
	return without(without(to, low, within), netip.PrefixFrom(addr, bits), within)
}

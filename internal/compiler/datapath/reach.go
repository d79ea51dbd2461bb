package datapath

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/policy"
)

// Reach says which nodes of a policy none of its rules can meet: their labels are
// right, and their addresses lie in none of the CIDRs. Such a policy does not touch
// them, and closes nothing.
type Reach struct{ source, destination reachSide }

// reachSide is one side of a policy and of its rules, each end once.
type reachSide struct {
	policy policy.Expr
	named  []policy.Expr
	cidrs  []netip.Prefix
}

// NewReach is that of a revision.
func NewReach(c policy.Content) *Reach {
	r := &Reach{source: reachSide{policy: c.Selector.Source}, destination: reachSide{policy: c.Selector.Destination}}
	seen := map[string]bool{}
	for _, rule := range c.Rules {
		if rule.AskedAt(policy.Egress) {
			r.source.add(rule.Source, rule.SourceSelector, "s", seen)
		}
		if rule.AskedAt(policy.Ingress) {
			r.destination.add(rule.Destination, rule.DestinationSelector, "d", seen)
		}
	}
	return r
}

func (s *reachSide) add(cidr netip.Prefix, own, side string, seen map[string]bool) {
	key := side + own
	if own == "" {
		key = side + cidr.String()
	}
	if seen[key] {
		return
	}
	if seen[key] = true; own != "" {
		s.named = append(s.named, parsed(own))
	} else {
		s.cidrs = append(s.cidrs, cidr)
	}
}

// Misses reports whether no rule can meet the node, though one would if another of
// its addresses were in a CIDR. A node without addresses lies in every CIDR. plain:
// only plain policies match the node, so their selectors do not say on which side it
// is.
func (r *Reach) Misses(n policy.Node, plain bool) bool {
	if len(n.Addresses) == 0 {
		return false
	}
	near := false
	for _, s := range []*reachSide{&r.source, &r.destination} {
		if !plain && !s.policy.Matches(n.Labels) {
			continue
		}
		if slices.ContainsFunc(s.named, func(e policy.Expr) bool { return e.Matches(n.Labels) }) ||
			slices.ContainsFunc(s.cidrs, func(p netip.Prefix) bool { return slices.ContainsFunc(n.Addresses, p.Contains) }) {
			return false
		}
		near = near || len(s.cidrs) > 0
	}
	return near
}

package datapath

import (
	"net/netip"
	"slices"
)

// Closed reports whether both directions deny what no rule decides, whatever the
// rules are (Options.Closed).
func (t *Table) Closed() bool { return t.closed }

// Holds reports whether the peer can be one of an identity.
func (p Peer) Holds(id *Identity) bool { return p.holds(id) }

// In reports whether an identity's nodes count as in a CIDR: one of their
// addresses lies in it, or they have none.
func (i *Identity) In(c netip.Prefix) bool { return i.within(c) }

// SameLevel reports whether two rules have the same place in the order, but for their
// class: one of them may speak for the authentication of the other.
func SameLevel(a, b *Rule) bool { return compareLevels(a, b) == 0 }

// InOrder are the rules of both directions in the order in which they are tried,
// each once, where one that is in both has the peer of either.
func (t *Table) InOrder() []*Rule {
	all := slices.Concat(t.lists[0].rules, t.lists[1].rules)
	slices.SortFunc(all, compareRules)
	return slices.CompactFunc(all, func(a, b *Rule) bool { return a.Ref == b.Ref })
}

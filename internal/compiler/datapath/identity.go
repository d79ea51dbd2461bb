package datapath

import (
	"net/netip"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Identity is a kind of peer: all peers of one identity are answered alike. It
// never changes: nodes whose labels or addresses change have another one.
//
// Those of nodes (a label set and the set of rule CIDRs that hold one of its
// addresses) are the caller's to give. Those of blocks of addresses outside the
// project follow from the rules: each CIDR that a rule names alone is one, named
// by its text, and is in all the rule CIDRs that contain it.
type Identity struct {
	Name   string        // unique in a table, not empty; fixes the number
	Labels policy.Labels // of nodes
	// CIDRs are prefixes (or single addresses) in which the peer is: a rule's CIDR
	// holds it when it contains one of them.
	CIDRs []netip.Prefix
	Block bool // addresses that no node of the project owns; selectors never hold
}

func (id *Identity) within(cidr netip.Prefix) bool {
	for _, c := range id.CIDRs {
		if cidr.Bits() <= c.Bits() && cidr.Contains(c.Addr()) {
			return true
		}
	}
	return false
}

// ID is the number of an identity inside one table: the names of a table's
// identities, sorted, are 1, 2, 3 and so on.
type ID uint32

// AnyIdentity is the number of the entries that answer for every peer, and of a
// peer without an identity.
const AnyIdentity ID = 0

func byName(a, b *Identity) int { return strings.Compare(a.Name, b.Name) }

// isBlock reports whether a name is one that a block can have.
func isBlock(name string) bool {
	_, err := netip.ParsePrefix(name)
	return err == nil
}

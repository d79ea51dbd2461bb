package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"
)

// Node is a machine that enforces policy.
type Node struct {
	ID        NodeID
	Project   uuid.UUID
	Labels    Labels
	Addresses Addresses
}

// NodeID names a node: a DNS label, unique in the plane (docs/design.md#the-domain).
type NodeID string

// MaxNodeID is the length of the longest node id, in bytes.
const MaxNodeID = 63

// ParseNodeID checks that s is a DNS label: [a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?.
// A UUID in lower case is one. The error is Violations with an empty pointer.
func ParseNodeID(s string) (NodeID, error) {
	if !validNodeID([]byte(s)) {
		return "", Violations{{"", CodeInvalidNodeID, nodeIDDetail([]byte(s))}}
	}
	return NodeID(s), nil
}

func validNodeID(s []byte) bool {
	if len(s) == 0 || len(s) > MaxNodeID || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range s {
		if !isLower(c) && c != '-' {
			return false
		}
	}
	return true
}

func nodeIDDetail(s []byte) string {
	return fmt.Sprintf("%.80q is not a node id; use 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'", s)
}

// Partition is the partition of n that the node falls in: FNV-1a 32 of the id
// mod n, which is what NATS' subject mapping function partition() computes
// (docs/design.md#the-read-model).
func (id NodeID) Partition(n int) int {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return int(h % uint32(n))
}

// Addresses are a node's addresses: sorted, each once, unmapped, without zone.
type Addresses []netip.Addr

// MaxAddresses is the most addresses a node may have.
const MaxAddresses = 64

func (a Addresses) normal() Addresses {
	if len(a) == 0 {
		return nil
	}
	slices.SortFunc(a, netip.Addr.Compare)
	return slices.Compact(a)
}

// Equal reports whether both hold the same addresses.
func (a Addresses) Equal(o Addresses) bool { return slices.Equal(a, o) }

func parseAddress(s string) (netip.Addr, string) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return a, fmt.Sprintf("%.64q is not an IP address", s)
	case a.Zone() != "":
		return a, s + " has a zone; remove it"
	case a.Is4In6():
		return a, fmt.Sprintf("%s is an IPv4 address in IPv6 form; write %s", s, a.Unmap())
	}
	return a, ""
}

func tooMany(what string, n, most int) string {
	return fmt.Sprintf("%d %s; at most %d", n, what, most)
}

func readNodeID(r *reader) NodeID {
	b, ok := r.text("a node id string")
	if !ok {
		return ""
	}
	if !validNodeID(b) {
		r.note("", CodeInvalidNodeID, nodeIDDetail(b))
		return ""
	}
	return NodeID(b)
}

func readAddresses(r *reader) Addresses {
	var addrs Addresses
	n := 0
	ok := r.array("an array of IP addresses", func(int) {
		b, ok := r.text("an IP address string")
		if n++; !ok || n > MaxAddresses {
			return
		}
		a, detail := parseAddress(string(b))
		if detail != "" {
			r.note("", CodeInvalidAddress, detail)
		}
		addrs = append(addrs, a)
	})
	if ok && n > MaxAddresses {
		r.note("", CodeTooManyAddresses, tooMany("addresses", n, MaxAddresses))
	}
	return addrs.normal()
}

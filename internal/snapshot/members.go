package snapshot

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// members says which addresses the peers of a list's rules have: firstmatch.Peers.
type members struct {
	datapath.Population
	owner   map[netip.Addr]policy.NodeID // the first by id
	several []policy.Node                // that have several addresses
}

func membersOf(p datapath.Population) *members {
	m := &members{Population: p, owner: map[netip.Addr]policy.NodeID{}}
	for _, nodes := range p.Members {
		for _, n := range nodes {
			for _, a := range n.Addresses {
				if first, known := m.owner[a]; !known || n.ID < first {
					m.owner[a] = n.ID
				}
			}
			if len(n.Addresses) > 1 {
				m.several = append(m.several, n)
			}
		}
	}
	return m
}

// Members are the addresses of the nodes that a peer by selector holds.
func (m *members) Members(peer datapath.Peer) (out []netip.Addr) {
	for i := range m.Identities {
		if id := &m.Identities[i]; peer.Holds(id) {
			for _, n := range m.Population.Members[id.Name] {
				out = m.owned(out, n, netip.Prefix{})
			}
		}
	}
	return sorted(out)
}

// Elsewhere are the addresses outside a CIDR of nodes that have another one in it.
func (m *members) Elsewhere(cidr netip.Prefix) (out []netip.Addr) {
	for _, n := range m.several {
		if slices.ContainsFunc(n.Addresses, cidr.Contains) {
			out = m.owned(out, n, cidr)
		}
	}
	return sorted(out)
}

// owned appends the addresses of a node that are its own, outside a CIDR.
func (m *members) owned(out []netip.Addr, n policy.Node, outside netip.Prefix) []netip.Addr {
	for _, a := range n.Addresses {
		if m.owner[a] == n.ID && !outside.Contains(a) {
			out = append(out, a)
		}
	}
	return out
}

func sorted(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

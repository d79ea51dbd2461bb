package snapshot

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// maxGaps is how many gaps between longer blocks and the addresses of nodes are tried
// for an address of a block.
const maxGaps = 256

// flowPeer is a kind of peer.
type flowPeer struct {
	ids   [2]datapath.ID // before, after
	names []string       // the first two; a node has a name beside itself
}

type addressSet map[netip.Addr]bool

func addressesOf(nodes []policy.Node) addressSet {
	set := addressSet{}
	for _, n := range nodes {
		for _, a := range n.Addresses {
			set[a] = true
		}
	}
	return set
}

// splitAddress is an address that several nodes have, which stand by id. A table has it as
// the first of them that a rule of its list names.
type splitAddress struct {
	addr   netip.Addr
	owners []policy.Node
}

func (s splitAddress) owner(of *datapath.Kinds) policy.Node {
	return s.owners[max(0, slices.IndexFunc(s.owners, of.Know))]
}

// splitAddresses are those that several of nodes have, which stand by id.
func splitAddresses(nodes []policy.Node) (all []splitAddress) {
	first, at := map[netip.Addr]int{}, map[netip.Addr]int{}
	for i, n := range nodes {
		for _, a := range n.Addresses {
			before, twice := first[a]
			if !twice {
				first[a] = i
				continue
			}
			k, known := at[a]
			if !known {
				k = len(all)
				at[a] = k
				all = append(all, splitAddress{a, []policy.Node{nodes[before]}})
			}
			all[k].owners = append(all[k].owners, n)
		}
	}
	return all
}

// add has a peer compared, unless both tables answer another one alike.
func (f *flows) add(name string, ids [2]datapath.ID) {
	at := [2]datapath.Answers{f.tables[0].Answers(ids[0]), f.tables[1].Answers(ids[1])}
	p := f.known[at]
	if p == nil {
		p = &flowPeer{ids: ids}
		f.known[at] = p
		f.peers = append(f.peers, p)
	}
	if len(p.names) < 2 {
		p.names = append(p.names, name)
	}
}

// meetSplit finds the addresses that are one node before the change and another after it.
// kinds are those of both lists, by which the tables call nodes.
func (f *flows) meetSplit(kinds *datapath.Kinds) {
	if len(f.split) == 0 {
		return
	}
	sides := [2]*datapath.Kinds{datapath.NewKinds(f.before.Rules), datapath.NewKinds(f.after.Rules)}
	for _, s := range f.split {
		if !f.meets(s.addr) {
			continue
		}
		f.left -= len(s.owners)
		var ids [2]datapath.ID
		for i, t := range f.tables {
			if id, named := kinds.Of(s.owner(sides[i])); named {
				ids[i], _ = t.ID(id.Name)
			}
		}
		f.add(s.addr.String(), ids)
	}
}

// meet finds the peers: of those that both tables answer alike, one.
func (f *flows) meet(population datapath.Population) {
	for _, id := range population.Identities {
		ids := [2]datapath.ID{}
		for i, t := range f.tables {
			ids[i], _ = t.ID(id.Name)
		}
		for _, n := range population.Members[id.Name][:min(2, len(population.Members[id.Name]))] {
			f.add(string(n.ID), ids)
		}
	}
	at := func(a netip.Addr) [2]datapath.ID {
		return [2]datapath.ID{f.tables[0].Resolve(a), f.tables[1].Resolve(a)}
	}
	for _, block := range f.blocks() {
		if a, ok := f.inside(block); ok && f.meets(a) {
			f.add(a.String(), at(a))
		}
	}
	for _, a := range unnamed() {
		if ids := at(a); f.meets(a) && !f.owned[a] && ids == [2]datapath.ID{} {
			f.add(a.String(), ids)
			break
		}
	}
}

// blocks are those of either table, by address.
func (f *flows) blocks() (all []netip.Prefix) {
	for _, t := range f.tables {
		for _, id := range t.Identities() {
			if id.Block {
				all = append(all, id.CIDRs[0])
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// inside is an address of a block that no node owns and no longer block holds; not
// ok: none is found among the first of the gaps between these.
func (f *flows) inside(block netip.Prefix) (netip.Addr, bool) {
	for a, tries := block.Addr(), 0; tries < maxGaps && block.Contains(a); tries++ {
		longest := block
		for _, t := range f.tables {
			if id := t.Identity(t.Resolve(a)); id != nil && id.CIDRs[0].Bits() > longest.Bits() {
				longest = id.CIDRs[0]
			}
		}
		switch {
		case longest != block:
			a = lastOf(longest)
		case !f.owned[a]:
			return a, true
		}
		a = a.Next()
	}
	return netip.Addr{}, false
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// unnamed are addresses that likely no rule names: those that are kept for documents.
func unnamed() (all []netip.Addr) {
	for _, text := range []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"} {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// families are those of a node's addresses: IPv4, IPv6. One without any may have both.
func families(n policy.Node) (has [2]bool) {
	for _, a := range n.Addresses {
		if a.Is4() {
			has[0] = true
		} else {
			has[1] = true
		}
	}
	if len(n.Addresses) == 0 {
		has = [2]bool{true, true}
	}
	return has
}

// meets reports whether a node of the pair can have a flow with an address: one of
// the node's own is of the same family.
func (p *pair) meets(a netip.Addr) bool {
	if a.Is4() {
		return p.families[0]
	}
	return p.families[1]
}

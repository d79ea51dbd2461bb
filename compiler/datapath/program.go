package datapath

import (
	"maps"
	"net/netip"
	"slices"
)

// program is what the rules of a node come to before any identity is known. It
// never changes.
type program struct {
	rules  []Rule // as given, in no order that matters
	lists  [directions]*list
	anyone [directions]lpm // entries for any identity
	peers  []Peer          // that rules name, each once, without any
	named  [directions]bitset
	blocks map[netip.Prefix]bool
	// blockBits are the lengths of blocks, longest first.
	blockBits []int
}

// compile orders rules, which have been checked.
func compile(rules []Rule, levels int) (*program, error) {
	p := &program{rules: rules, blocks: map[netip.Prefix]bool{}}
	index := map[string]int32{}
	for i := range rules {
		peer := &rules[i].Peer
		if peer.Any {
			continue
		}
		k := peer.key()
		if _, known := index[k]; !known {
			index[k] = int32(len(p.peers))
			p.peers = append(p.peers, *peer)
		}
		if b, ok := peer.block(); ok {
			p.blocks[b] = true
		}
	}
	bits := map[int]bool{}
	for b := range p.blocks {
		bits[b.Bits()] = true
	}
	p.blockBits = slices.Sorted(maps.Keys(bits))
	slices.Reverse(p.blockBits)
	for n := range p.lists {
		l, err := newList(Egress+Direction(n), rules, index, levels)
		if err != nil {
			return nil, err
		}
		p.lists[n] = l
		r := resolver{list: l}
		p.anyone[n] = slices.Clip(r.anyoneOf())
		p.named[n] = newBitset(len(p.peers))
		for i := range l.lines {
			if !l.lines[i].any() {
				p.named[n].add(l.lines[i].peer)
			}
		}
	}
	return p, nil
}

// holding is which peers an identity is one of.
func (p *program) holding(id *Identity, into bitset) bitset {
	clear(into)
	for i := range p.peers {
		if p.peers[i].holds(id) {
			into.add(int32(i))
		}
	}
	return into
}

// identities are those that follow from the rules: the blocks.
func (p *program) identities() []*Identity {
	ids := make([]*Identity, 0, len(p.blocks))
	for b := range p.blocks {
		ids = append(ids, &Identity{Name: b.String(), CIDRs: []netip.Prefix{b}, Block: true})
	}
	return ids
}

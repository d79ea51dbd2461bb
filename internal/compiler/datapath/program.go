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
	closed bool
	lists  [directions]*list
	anyone [directions]lpm // entries for any identity
	peers  []Peer          // that rules name, each once, without any
	chosen []int32         // those by selector
	blocks map[netip.Prefix]int32
	// bits4 and bits6 are the lengths of blocks of a family, longest first.
	bits4, bits6 []int
	steps        int // that it took to make
}

// compile orders rules, which have been checked.
func compile(rules []Rule, o Options, w *Work) (*program, error) {
	if len(rules) == 0 {
		w = nil // no rules are no work, as those that a state begins with
	}
	most := changes(rules)
	p, before := &program{rules: rules, closed: o.Closed, blocks: make(map[netip.Prefix]int32, most), peers: make([]Peer, 0, most)}, w.Steps()
	if err := w.Rules(len(rules)); err != nil {
		return nil, err
	}
	peers := p.index()
	for n := range p.lists {
		l, err := newList(Egress+Direction(n), rules, peers, o)
		if err != nil {
			return nil, err
		}
		l.byPeer(len(p.peers))
		p.lists[n] = l
		r := resolver{list: l, work: w}
		anyone, err := r.anyoneOf()
		if err != nil {
			return nil, err
		}
		p.anyone[n] = slices.Clone(anyone)
	}
	p.steps = w.Steps() - before
	return p, nil
}

// index numbers the peers, and says which is whose: -1 for any.
func (p *program) index() (of []int32) {
	of = make([]int32, len(p.rules))
	named := map[string]int32{}
	for i := range p.rules {
		peer := &p.rules[i].Peer
		next, known := int32(len(p.peers)), false
		if of[i] = next; peer.Any {
			of[i] = -1
			continue
		}
		if b, ok := peer.block(); ok {
			if of[i], known = p.blocks[b]; !known {
				of[i], p.blocks[b] = next, next
			}
		} else {
			k := peer.key()
			if of[i], known = named[k]; !known {
				of[i], named[k] = next, next
				p.chosen = append(p.chosen, next)
			}
		}
		if !known {
			p.peers = append(p.peers, *peer)
		}
	}
	p.bits4, p.bits6 = lengths(maps.Keys(p.blocks))
	return of
}

// lengths are those of prefixes, by family, longest first.
func lengths(prefixes func(yield func(netip.Prefix) bool)) (bits4, bits6 []int) {
	var seen4, seen6 [129]bool
	for b := range prefixes {
		if b.Addr().Is4() {
			seen4[b.Bits()] = true
		} else {
			seen6[b.Bits()] = true
		}
	}
	for n := 128; n >= 0; n-- {
		if seen4[n] {
			bits4 = append(bits4, n)
		}
		if seen6[n] {
			bits6 = append(bits6, n)
		}
	}
	return bits4, bits6
}

// lengths are those of the blocks that may hold an address.
func (p *program) lengths(a netip.Addr) []int {
	if a.Is4() {
		return p.bits4
	}
	return p.bits6
}

// What looking at a peer takes, in steps.
const (
	stepsPerSelector = 8
	stepsPerBlock    = 4
)

// holding appends which peers an identity is one of, ascending.
func (p *program) holding(id *Identity, into []int32, w *Work) ([]int32, error) {
	if !id.Block {
		if err := w.spend(stepsPerSelector * len(p.chosen)); err != nil {
			return into, err
		}
		for _, i := range p.chosen {
			if p.peers[i].holds(id) {
				into = append(into, i)
			}
		}
	}
	for _, c := range id.CIDRs {
		bits := p.lengths(c.Addr())
		if err := w.spend(stepsPerBlock * len(bits)); err != nil {
			return into, err
		}
		for _, n := range bits {
			if n > c.Bits() {
				continue
			}
			if b, err := c.Addr().Prefix(n); err == nil {
				if i, ok := p.blocks[b]; ok {
					into = append(into, i)
				}
			}
		}
	}
	slices.Sort(into)
	return slices.Compact(into), nil
}

// identities are those that follow from the rules, by name: the blocks.
func (p *program) identities() []*Identity {
	blocks := byText(p.blocks)
	all, ids := make([]Identity, len(blocks)), make([]*Identity, len(blocks))
	for i, b := range blocks {
		all[i] = Identity{Name: b.String(), CIDRs: blocks[i : i+1 : i+1], Block: true}
		ids[i] = &all[i]
	}
	return ids
}

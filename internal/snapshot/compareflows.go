package snapshot

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// How many flows of one direction are compared for nodes of one list, at how many
// ports of a peer at least, and what one takes in steps.
const (
	maxFlows     = 1 << 15
	minPoints    = 64
	stepsPerFlow = 32
	maxGaps      = 256 // between the addresses of nodes and longer blocks
)

// flows are those of the nodes of one pair of lists.
type flows struct {
	*comparing
	*pair
	tables [2]*datapath.Table // before, after
	peers  []*flowPeer
}

// flowPeer is a kind of peer.
type flowPeer struct {
	ids   [2]datapath.ID // before, after
	names []string       // the first two; a node has a name beside itself
}

// point is a protocol and a port.
type point struct {
	protocol datapath.Protocol
	port     uint16
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

// meet finds the peers: of those that both tables answer alike, one.
func (f *flows) meet(population datapath.Population) {
	known := map[[2]datapath.Answers]*flowPeer{}
	add := func(name string, ids [2]datapath.ID) {
		at := [2]datapath.Answers{f.tables[0].Answers(ids[0]), f.tables[1].Answers(ids[1])}
		p := known[at]
		if p == nil {
			p = &flowPeer{ids: ids}
			known[at] = p
			f.peers = append(f.peers, p)
		}
		if len(p.names) < 2 {
			p.names = append(p.names, name)
		}
	}
	for _, id := range population.Identities {
		ids := [2]datapath.ID{}
		for i, t := range f.tables {
			ids[i], _ = t.ID(id.Name)
		}
		for _, n := range population.Members[id.Name][:min(2, len(population.Members[id.Name]))] {
			add(string(n.ID), ids)
		}
	}
	at := func(a netip.Addr) [2]datapath.ID {
		return [2]datapath.ID{f.tables[0].Resolve(a), f.tables[1].Resolve(a)}
	}
	for _, block := range f.blocks() {
		if a, ok := f.inside(block); ok {
			add(a.String(), at(a))
		}
	}
	for _, a := range f.unnamed() {
		if ids := at(a); ids == [2]datapath.ID{} && !f.owned[a] {
			add(a.String(), ids)
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

// unnamed are addresses that likely no rule names, of the families that the node
// has: those that are kept for documents.
func (f *flows) unnamed() (all []netip.Addr) {
	for _, text := range []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"} {
		a := netip.MustParseAddr(text)
		of := func(x netip.Addr) bool { return x.Is4() == a.Is4() }
		if len(f.node.Addresses) == 0 || slices.ContainsFunc(f.node.Addresses, of) {
			all = append(all, a)
		}
	}
	return all
}

// points are where the rules of a direction begin and where the ports after them do:
// one of each range that is answered alike. Those of the policy's own rules stand
// before the others.
func (f *flows) points(d datapath.Direction) []point {
	var own, others []point
	for _, p := range []datapath.Protocol{datapath.TCP, datapath.UDP, datapath.SCTP, datapath.ICMP} {
		if own = append(own, point{p, 1}); p == datapath.ICMP {
			own[len(own)-1].port = 0
		}
	}
	for _, r := range slices.Concat(f.before.Rules, f.after.Rules) {
		if r.Direction != d || r.Ports.To == 0 {
			continue
		}
		into := &others
		if r.Ref.Policy == f.own {
			into = &own
		}
		protocols := []datapath.Protocol{r.Protocol}
		if r.Protocol == datapath.AnyProtocol {
			protocols = []datapath.Protocol{datapath.TCP, datapath.UDP, datapath.SCTP}
		}
		for _, p := range protocols {
			*into = append(*into, point{p, r.Ports.From})
			if r.Ports.To < 65535 {
				*into = append(*into, point{p, r.Ports.To + 1})
			}
		}
	}
	return append(byPort(own), without(byPort(others), own)...)
}

func byPort(points []point) []point {
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port)) })
	return slices.Compact(points)
}

func without(points, some []point) []point {
	not := map[point]bool{}
	for _, p := range some {
		not[p] = true
	}
	return slices.DeleteFunc(points, func(p point) bool { return not[p] })
}

// sample cuts peers and points where there are too many flows. Peers are left out
// evenly.
func (f *flows) sample(points []point) ([]*flowPeer, []point) {
	if len(f.peers)*len(points) <= maxFlows {
		return f.peers, points
	}
	f.done.Sampled = true
	points = points[:min(len(points), max(minPoints, maxFlows/len(f.peers)))]
	most := maxFlows / len(points)
	if len(f.peers) <= most {
		return f.peers, points
	}
	peers := make([]*flowPeer, most)
	for i := range peers {
		peers[i] = f.peers[i*len(f.peers)/most]
	}
	return peers, points
}

// compare asks both tables about every flow.
func (f *flows) compare() error {
	changed := false
	for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
		peers, points := f.sample(f.points(d))
		if err := f.proceed(); err != nil {
			return err
		}
		f.left -= stepsPerFlow * len(peers) * len(points)
		f.done.Flows += uint64(len(peers) * len(points))
		for _, p := range peers {
			for _, at := range points {
				was, is := lookedUp(f.tables[0], d, p.ids[0], at), lookedUp(f.tables[1], d, p.ids[1], at)
				if f.count(was, is) {
					changed = true
					f.show(d, p, at, was, is)
				}
			}
		}
	}
	if changed {
		f.done.Changed.add(f.Count, f.First...)
	}
	return nil
}

// lookedUp is what a table answers: without an entry the flow is denied.
func lookedUp(t *datapath.Table, d datapath.Direction, id datapath.ID, at point) datapath.Value {
	e, ok := t.Lookup(d, id, at.protocol, at.port)
	if !ok {
		return datapath.Value{Verdict: datapath.Deny}
	}
	return e.Value
}

// count counts a flow, and reports whether it changes.
func (f *flows) count(was, is datapath.Value) bool {
	switch {
	case was.Verdict != datapath.Deny && is.Verdict == datapath.Deny:
		f.done.Denied++
	case was.Verdict == datapath.Deny && is.Verdict != datapath.Deny:
		f.done.Allowed++
	case was.Verdict != is.Verdict || was.ProxyPort != is.ProxyPort || was.Auth != is.Auth:
		f.done.Altered++
	default:
		return false
	}
	return true
}

// show keeps a flow as an example, unless there is one of the same rules.
func (f *flows) show(d datapath.Direction, p *flowPeer, at point, was, is datapath.Value) {
	same := shownChange{d, [2]datapath.Verdict{was.Verdict, is.Verdict}, was.Rule, is.Rule}
	if len(f.done.Examples) == maxExamples || f.shown[same] {
		return
	}
	f.shown[same] = true
	node, peer := f.First[0], p.names[0]
	if peer == string(node) && len(p.names) > 1 {
		peer = p.names[1]
	} else if peer == string(node) && len(f.First) > 1 {
		node = f.First[1]
	}
	f.done.Examples = append(f.done.Examples, FlowChange{Node: node, Direction: d, Peer: peer, Protocol: at.protocol, Port: at.port, Before: was, After: is})
}

package snapshot

import (
	"cmp"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// How many flows of one direction are compared for nodes of one list, at how many
// ports of a peer at least, and what one takes in steps.
const (
	maxFlows     = 1 << 15
	minPoints    = 64
	stepsPerFlow = 32
)

// flows are those of the nodes of one pair of lists.
type flows struct {
	*comparing
	*pair
	tables [2]*datapath.Table // before, after
	peers  []*flowPeer
	known  map[[2]datapath.Answers]*flowPeer
}

// point is a protocol and a port.
type point struct {
	protocol datapath.Protocol
	port     uint16
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

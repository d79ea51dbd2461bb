package enforce

import (
	"cmp"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// ported are the protocols whose flows have ports, in the order of their rules.
var ported = []datapath.Protocol{datapath.TCP, datapath.UDP, datapath.SCTP}

// answers are what an identity's entries of one direction say about every flow:
// nil is nothing.
type answers struct {
	ports map[datapath.Protocol][]span[port, *datapath.Entry] // every port, in order
	icmp  *datapath.Entry
	other *datapath.Entry // of protocols that no rule can name
}

// answersOf are those of the longest entries: of a protocol and a port, else of
// the protocol, else of any.
func answersOf(entries []*datapath.Entry) answers {
	a := answers{ports: map[datapath.Protocol][]span[port, *datapath.Entry]{}}
	by := map[datapath.Protocol][]*datapath.Entry{}
	for _, e := range entries {
		by[e.Protocol] = append(by[e.Protocol], e)
	}
	if all := by[datapath.AnyProtocol]; len(all) > 0 {
		a.other = all[0]
	}
	a.icmp = a.other
	if all := by[datapath.ICMP]; len(all) > 0 {
		a.icmp = all[0]
	}
	for _, p := range ported {
		nested := []span[port, *datapath.Entry]{{0, lastPort, a.other}}
		slices.SortStableFunc(by[p], func(a, b *datapath.Entry) int {
			return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Bits, b.Bits))
		})
		for _, e := range by[p] {
			from := port(e.Port)
			nested = append(nested, span[port, *datapath.Entry]{from, from + 1<<(16-e.Bits) - 1, e})
		}
		a.ports[p] = flatten(nested)
	}
	return a
}

// beside are the flows of a peer with answers own, of which those that its own
// entries do not decide are nil: any identity's do.
func (own answers) beside(anyone answers) answers {
	out := answers{
		ports: map[datapath.Protocol][]span[port, *datapath.Entry]{},
		icmp:  wins(own.icmp, anyone.icmp), other: wins(own.other, anyone.other),
	}
	for _, p := range ported {
		out.ports[p] = besidePorts(own.ports[p], anyone.ports[p])
	}
	return out
}

// besidePorts walks two lists that are each all ports.
func besidePorts(own, anyone []span[port, *datapath.Entry]) (out []span[port, *datapath.Entry]) {
	at := port(0)
	for i, j := 0, 0; i < len(own) && j < len(anyone); {
		to := min(own[i].to, anyone[j].to)
		value := wins(own[i].value, anyone[j].value)
		if n := len(out); n > 0 && out[n-1].value == value {
			out[n-1].to = to
		} else {
			out = append(out, span[port, *datapath.Entry]{at, to, value})
		}
		at = to + 1
		if own[i].to == to {
			i++
		}
		if anyone[j].to == to {
			j++
		}
	}
	return out
}

// wins is own when it decides, beside the entry of any identity: the higher
// precedence, then the longer prefix, then the identity's own. Else it is nil.
func wins(own, anyone *datapath.Entry) *datapath.Entry {
	if own == nil || anyone == nil {
		return own
	}
	if anyone.Precedence != own.Precedence {
		if anyone.Precedence > own.Precedence {
			return nil
		}
		return own
	}
	if depth(anyone) > depth(own) {
		return nil
	}
	return own
}

// depth is the length of the prefix of protocol and port that an entry fixes.
func depth(e *datapath.Entry) int {
	if e.Protocol == datapath.AnyProtocol {
		return 0
	}
	return 1 + int(e.Bits)
}

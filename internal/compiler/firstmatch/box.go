package firstmatch

import (
	"net/netip"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// box is flows of one direction: those between some addresses of the node and
// some of a peer, of a protocol, to some ports. The zero box is all flows.
type box struct {
	self, peer netip.Prefix // not valid: every address
	protocol   datapath.Protocol
	ports      policy.Ports // zero: every port
}

// within is the flows that two boxes share.
func (b box) within(o box) (both box, ok bool) {
	if both.self, ok = narrower(b.self, o.self); !ok {
		return both, false
	}
	if both.peer, ok = narrower(b.peer, o.peer); !ok {
		return both, false
	}
	switch both.protocol = b.protocol; {
	case b.protocol == datapath.AnyProtocol:
		both.protocol = o.protocol
	case o.protocol != datapath.AnyProtocol && o.protocol != b.protocol:
		return both, false
	}
	both.ports, ok = shared(b.ports, o.ports)
	return both, ok
}

// covers reports whether all flows of o are b's.
func (b box) covers(o box) bool {
	both, ok := b.within(o)
	return ok && both == o
}

// narrower is the addresses that two prefixes share: one of them, or none.
func narrower(a, b netip.Prefix) (netip.Prefix, bool) {
	switch {
	case !a.IsValid():
		return b, true
	case !b.IsValid() || b.Bits() <= a.Bits() && b.Contains(a.Addr()):
		return a, true
	case a.Contains(b.Addr()):
		return b, true
	}
	return netip.Prefix{}, false
}

func shared(a, b policy.Ports) (policy.Ports, bool) {
	if a == (policy.Ports{}) {
		return b, true
	}
	if b == (policy.Ports{}) {
		return a, true
	}
	both := policy.Ports{From: max(a.From, b.From), To: min(a.To, b.To)}
	return both, both.From <= both.To
}

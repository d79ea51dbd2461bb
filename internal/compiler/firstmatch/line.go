package firstmatch

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// Peers says which addresses are meant by a rule's peer.
type Peers interface {
	// Members are the addresses of the nodes that a peer by selector holds.
	Members(datapath.Peer) []netip.Addr
	// Elsewhere are the addresses outside a CIDR of nodes that have another one in
	// it: a node is in a CIDR with all its addresses.
	Elsewhere(netip.Prefix) []netip.Addr
}

// line is a rule and the flows that it is about, which are boxes.
type line struct {
	*datapath.Rule
	self, peers []netip.Prefix // lines of one peer share its addresses
	protocols   []datapath.Protocol
	// action is what plain rules can say instead of the verdict: allow, deny, pass
	// or log. A redirect is a deny, and so is what needs authentication.
	action datapath.Verdict
	exact  bool // action and boxes say all of the rule
}

// lineOf is the line of a rule whose peer has these addresses, with those of the
// node that it is about.
func lineOf(r *datapath.Rule, self, peers []netip.Prefix) line {
	l := line{Rule: r, self: self, peers: peers, action: r.Verdict, exact: true}
	if r.Verdict == datapath.Redirect || r.Verdict == datapath.Allow && r.Auth == datapath.AuthRequired {
		l.action, l.exact = datapath.Deny, false
	}
	switch ports := r.Ports != (policy.Ports{}); {
	case r.Protocol == datapath.SCTP: // plain rules have no word for it
		l.exact = false
	case r.Protocol == datapath.AnyProtocol && ports:
		l.protocols = []datapath.Protocol{datapath.TCP, datapath.UDP}
	default:
		l.protocols = []datapath.Protocol{r.Protocol}
	}
	return l
}

// boxes are the flows of the line.
func (l *line) boxes(yield func(box) bool) {
	for _, s := range l.self {
		for _, p := range l.peers {
			for _, protocol := range l.protocols {
				if !yield(box{s, p, protocol, l.Ports}) {
					return
				}
			}
		}
	}
}

// size is how many boxes there are.
func (l *line) size() int { return len(l.self) * len(l.peers) * len(l.protocols) }

var everyone = []netip.Prefix{{}}

// prefixesOf are the addresses of a rule's peer.
func prefixesOf(p datapath.Peer, peers Peers) (out []netip.Prefix) {
	switch {
	case p.Any:
		return everyone
	case len(p.Selectors) > 0:
		return hosts(nil, peers.Members(p))
	}
	return hosts([]netip.Prefix{p.CIDR}, peers.Elsewhere(p.CIDR))
}

func hosts(out []netip.Prefix, addrs []netip.Addr) []netip.Prefix {
	out = slices.Grow(out, len(addrs))
	for _, a := range addrs {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}

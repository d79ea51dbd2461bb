package datapath

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Rule is one line of a node's list: flows of one direction between the node
// and one kind of peer.
//
// The order of all rules is (Tier, Priority, Ref.Index or 0 where the policy is
// not Ordered, class, Ref.Policy, Ref.Index). The first four are a level and its
// class: they make the precedence of an entry. The class is the verdict: deny,
// then redirect by ListenerPriority, then allow, then pass.
type Rule struct {
	Ref       Ref
	Direction Direction
	Tier      Tier
	Priority  uint32 // 0..MaxPriority, lower first
	Ordered   bool   // the policy sets tier or priority: its rules decide in the author's order

	Peer     Peer
	Protocol Protocol
	// Ports is zero where every port matches. With AnyProtocol, ports mean those
	// of TCP, UDP and SCTP; ICMP has none. 1 to 65535 is every port, 0 too.
	Ports policy.Ports

	Verdict          Verdict
	ProxyPort        uint16 // of a redirect
	ListenerPriority uint8  // of a redirect: 1..MaxListenerPriority, lower first; 0: after all of them
	Auth             Auth   // of an allow or redirect; of no meaning elsewhere

	// NoDefaultDeny is set where the policy says default_deny: false. A direction
	// denies what nothing matches when one rule in it decides (allow, deny or
	// redirect) and has this unset; else it allows.
	NoDefaultDeny bool
}

// Limits of a rule's numbers.
const (
	MaxPriority         = 1<<24 - 1
	MaxListenerPriority = 126
)

// Ref names a rule by where its author wrote it.
type Ref struct {
	Policy   string // a UUID's text
	Revision string // a UUID's text
	Index    int    // in the revision's rules as written
}

// Peer is the other end of a flow. Either Any is set, or at least one of the
// others; of those that are set, all must hold.
type Peer struct {
	// Any is everyone, whether an identity is known or not.
	Any bool
	// Selectors hold for the labels of a node's identity, and never for a block of
	// addresses: the policy's selector for that side, and the rule's own.
	Selectors []policy.Expr
	// CIDR holds an address of the peer. Not set: !IsValid().
	CIDR netip.Prefix
}

// key is a text equal for peers that were written the same.
func (p Peer) key() string {
	if p.Any {
		return "*"
	}
	var b strings.Builder
	if p.CIDR.IsValid() {
		b.WriteString(p.CIDR.String())
	}
	for _, e := range p.Selectors {
		b.WriteByte(';')
		b.WriteString(e.String())
	}
	return b.String()
}

// String is the peer for people: each clause once.
func (p Peer) String() string {
	if p.Any {
		return "any"
	}
	var parts []string
	for _, e := range p.Selectors {
		for i := range e { // a rule may say again what its policy says
			if text := e[i : i+1].String(); !slices.Contains(parts, text) {
				parts = append(parts, text)
			}
		}
	}
	if p.CIDR.IsValid() {
		parts = append(parts, p.CIDR.String())
	}
	return strings.Join(parts, ",")
}

// holds reports whether the peer can be one of id.
func (p Peer) holds(id *Identity) bool {
	if p.Any {
		return true
	}
	if len(p.Selectors) > 0 && id.Block {
		return false
	}
	for _, e := range p.Selectors {
		if !e.Matches(id.Labels) {
			return false
		}
	}
	return !p.CIDR.IsValid() || id.within(p.CIDR)
}

// block is the prefix that the peer makes an identity of its own.
func (p Peer) block() (netip.Prefix, bool) {
	return p.CIDR, p.CIDR.IsValid() && len(p.Selectors) == 0
}

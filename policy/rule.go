package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Action is what a rule does with the traffic it matches.
type Action string

// The closed set of actions. Log never decides. Pass leaves the decision to the
// next tier; redirect allows, by way of the node's proxy.
const (
	Allow    Action = "allow"
	Deny     Action = "deny"
	Log      Action = "log"
	Pass     Action = "pass"
	Redirect Action = "redirect"
)

// Protocol is the L4 protocol a rule matches.
type Protocol string

// The closed set of protocols.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
	ICMP Protocol = "icmp"
	Any  Protocol = "any"
)

// HasPorts reports whether rules of the protocol name ports: they must with
// tcp, udp and sctp, and must not with icmp and any.
func (p Protocol) HasPorts() bool { return p == TCP || p == UDP || p == SCTP }

// Auth says whether both ends of an allowed flow must prove who they are. Empty:
// the rule does not say.
type Auth string

// The closed set of auths.
const (
	AuthRequired Auth = "required"
	AuthDisabled Auth = "disabled"
)

// Direction is the end of a flow at which a rule is asked: egress at its source,
// ingress at its destination. Empty: at both.
type Direction string

// The closed set of directions.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// Ports is an inclusive range of ports, 1..65535. The zero value means that
// the rule has none.
type Ports struct {
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
}

// Rule is one line of a policy: traffic from one side to the other. A side is a
// masked prefix or, in its place, a selector; two prefixes are of one address
// family. Rules are comparable: equal rules say the same.
type Rule struct {
	Action      Action
	Protocol    Protocol
	Source      netip.Prefix // not valid where SourceSelector stands in its place
	Destination netip.Prefix
	Ports       Ports

	// Selectors in canonical text, see Expr.Canonical; empty where the side is a
	// prefix.
	SourceSelector      string
	DestinationSelector string
	ProxyPort           uint16 // of a redirect, 1..65535; 0 elsewhere
	ListenerPriority    uint8  // of a redirect: 1..MaxListenerPriority, lower first; 0: after all of them
	Auth                Auth   // of an allow or a redirect
	Direction           Direction
}

// AskedAt reports whether the rule is asked at the end of a flow that sees it in a
// direction.
func (r Rule) AskedAt(d Direction) bool { return r.Direction == "" || r.Direction == d }

// Limits of a rule list and of a rule's numbers.
const (
	MaxRules            = 1024 // of a revision; the least is one
	MaxListenerPriority = 126
)

// Plain reports whether the node contract (docs/design.md#http) can express the
// rule: an allow, deny or log between two prefixes, without anything of section
// 8.
func (r Rule) Plain() bool {
	switch r.Action {
	case Allow, Deny, Log:
	default:
		return false
	}
	return r.Protocol != SCTP && r.SourceSelector == "" && r.DestinationSelector == "" && r.Auth == "" && r.Direction == ""
}

// Compare is the canonical order of rules (docs/design.md#compile): source CIDR,
// destination CIDR, protocol, ports.from, ports.to, action, then the fields of
// ordered policy in their order; CIDRs and selectors bytewise by their canonical
// text, absent numbers as 0, absent texts as empty.
func (r Rule) Compare(o Rule) int {
	if r.Source != o.Source {
		return comparePrefix(r.Source, o.Source)
	}
	if r.Destination != o.Destination {
		return comparePrefix(r.Destination, o.Destination)
	}
	return cmp.Or(
		strings.Compare(string(r.Protocol), string(o.Protocol)),
		cmp.Compare(r.Ports.From, o.Ports.From),
		cmp.Compare(r.Ports.To, o.Ports.To),
		strings.Compare(string(r.Action), string(o.Action)),
		r.CompareOrdered(o),
	)
}

// CompareOrdered is the end of Compare: the fields of ordered policy.
func (r Rule) CompareOrdered(o Rule) int {
	return cmp.Or(
		strings.Compare(r.SourceSelector, o.SourceSelector),
		strings.Compare(r.DestinationSelector, o.DestinationSelector),
		cmp.Compare(r.ProxyPort, o.ProxyPort),
		cmp.Compare(r.ListenerPriority, o.ListenerPriority),
		strings.Compare(string(r.Auth), string(o.Auth)),
		strings.Compare(string(r.Direction), string(o.Direction)),
	)
}

func comparePrefix(a, b netip.Prefix) int {
	var ta, tb [49]byte // the longest IPv6 prefix text fits
	return bytes.Compare(AppendCIDR(ta[:0], a), AppendCIDR(tb[:0], b))
}

// AppendCIDR appends the canonical text of a prefix, nothing for the zero Prefix.
func AppendCIDR(b []byte, p netip.Prefix) []byte {
	if !p.IsValid() {
		return b
	}
	return p.AppendTo(b)
}

func parseCIDR(s string) (netip.Prefix, Violation) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		detail := fmt.Sprintf("%.64q is not a CIDR; write a prefix such as 10.0.0.0/8 or fd00::/8", s)
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			detail = fmt.Sprintf("%s has no prefix length; write %s/%d", s, a, a.BitLen())
		}
		return p, Violation{Code: CodeInvalidCIDR, Detail: detail}
	case p.Addr().Is4In6():
		return p, Violation{Code: CodeInvalidCIDR, Detail: s + " is an IPv4 prefix in IPv6 form; write it as IPv4"}
	case p != p.Masked():
		return p, Violation{
			Code:   CodeCIDRNotMasked,
			Detail: fmt.Sprintf("%s has host bits set; write %s", s, p.Masked()),
		}
	}
	return p, Violation{}
}

package datapath

import "fmt"

// Tier is the coarsest part of the order: everything in a tier is asked before
// anything in the next. The zero value is no tier.
type Tier uint8

// The closed set of tiers, in the order in which they are asked.
const (
	Admin Tier = 1 + iota
	Normal
	Baseline
)

const tiers = 3

var tierNames = []string{"", "admin", "normal", "baseline"}

// Direction is which way a flow begins, seen from the node. The zero value is
// no direction.
type Direction uint8

// The closed set of directions, in the order of a table's entries.
const (
	Egress Direction = 1 + iota
	Ingress
)

const directions = 2

var directionNames = []string{"", "egress", "ingress"}

// Verdict is what a rule does with the flows it matches. The zero value is none.
type Verdict uint8

// The closed set of verdicts. Among rules of one level a deny goes before a
// redirect, that before an allow, and that before a pass. Log never decides.
const (
	Deny     Verdict = 1 + iota
	Redirect         // to the node's proxy at Rule.ProxyPort
	Allow
	Pass // skip the rest of the tier
	Log
)

var verdictNames = []string{"", "deny", "redirect", "allow", "pass", "log"}

// Auth is whether both ends of a flow must prove who they are.
type Auth uint8

// The closed set. AuthUnset inherits: see docs/datapath.md.
const (
	AuthUnset Auth = iota
	AuthRequired
	AuthDisabled
)

var authNames = []string{"", "required", "disabled"}

// Protocol is an IP protocol number. Zero is any protocol.
type Protocol uint8

// The protocols a rule can name. A flow may have any number; those that are not
// here are matched by AnyProtocol alone.
const (
	AnyProtocol Protocol = 0
	ICMP        Protocol = 1
	TCP         Protocol = 6
	UDP         Protocol = 17
	SCTP        Protocol = 132
)

// hasPorts reports whether flows of the protocol have ports.
func (p Protocol) hasPorts() bool { return p == TCP || p == UDP || p == SCTP }

// withPorts are the protocols that a rule for any protocol and some ports means.
var withPorts = []Protocol{TCP, UDP, SCTP}

// String is the tier's name in JSON, flags and docs.
func (t Tier) String() string { return nameOf("Tier", tierNames, uint8(t)) }

// String is the direction's name in JSON, flags and docs.
func (d Direction) String() string { return nameOf("Direction", directionNames, uint8(d)) }

// String is the verdict's name in JSON, flags and docs.
func (v Verdict) String() string { return nameOf("Verdict", verdictNames, uint8(v)) }

// String is the name in JSON, flags and docs, empty for AuthUnset.
func (a Auth) String() string {
	if a == AuthUnset {
		return ""
	}
	return nameOf("Auth", authNames, uint8(a))
}

// String is the protocol's name in JSON, flags and docs, or its number.
func (p Protocol) String() string {
	switch p {
	case AnyProtocol:
		return "any"
	case ICMP:
		return "icmp"
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprint(uint8(p))
}

func nameOf(kind string, names []string, v uint8) string {
	if 0 < v && int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// ParseTier reads a tier's name.
func ParseTier(s string) (Tier, error) { return parseName[Tier]("tier", tierNames, s) }

// ParseDirection reads a direction's name.
func ParseDirection(s string) (Direction, error) {
	return parseName[Direction]("direction", directionNames, s)
}

// ParseVerdict reads a verdict's name: a rule's action.
func ParseVerdict(s string) (Verdict, error) { return parseName[Verdict]("action", verdictNames, s) }

// ParseAuth reads required or disabled; the empty string is AuthUnset.
func ParseAuth(s string) (Auth, error) {
	if s == "" {
		return AuthUnset, nil
	}
	return parseName[Auth]("auth", authNames, s)
}

// ParseProtocol reads a protocol's name.
func ParseProtocol(s string) (Protocol, error) {
	for _, p := range []Protocol{AnyProtocol, ICMP, TCP, UDP, SCTP} {
		if p.String() == s {
			return p, nil
		}
	}
	return 0, fmt.Errorf("%.32q is not a protocol; use tcp, udp, sctp, icmp or any", s)
}

func parseName[T ~uint8](kind string, names []string, s string) (T, error) {
	for i, name := range names {
		if i > 0 && name == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%.32q is not a %s; use one of %v", s, kind, names[1:])
}

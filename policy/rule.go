package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Action is what a rule does with the traffic it matches.
type Action string

// The closed set of actions. Log never decides.
const (
	Allow Action = "allow"
	Deny  Action = "deny"
	Log   Action = "log"
)

// Protocol is the L4 protocol a rule matches.
type Protocol string

// The closed set of protocols.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp"
	Any  Protocol = "any"
)

// HasPorts reports whether rules of the protocol name ports: they must with
// tcp and udp, and must not with icmp and any.
func (p Protocol) HasPorts() bool { return p == TCP || p == UDP }

// Ports is an inclusive range of ports, 1..65535. The zero value means that
// the rule has none.
type Ports struct {
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
}

// Rule is one line of a policy: traffic from a prefix to a prefix of the same
// address family. Both prefixes are masked.
type Rule struct {
	Action      Action
	Protocol    Protocol
	Source      netip.Prefix
	Destination netip.Prefix
	Ports       Ports
}

// MaxRules is the most rules a revision may hold; the least is one.
const MaxRules = 1024

// Compare is the canonical order of rules (design section 4): source CIDR,
// destination CIDR, protocol, ports.from, ports.to, action; CIDRs bytewise by
// their canonical text, absent ports as 0.
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
	)
}

func comparePrefix(a, b netip.Prefix) int {
	var ta, tb [49]byte // the longest IPv6 prefix text fits
	return bytes.Compare(a.AppendTo(ta[:0]), b.AppendTo(tb[:0]))
}

// ParseCIDR reads a masked IPv4 or IPv6 prefix. The error is a Violation's code
// and detail, without a pointer.
func ParseCIDR(s string) (netip.Prefix, error) {
	p, v := parseCIDR(s)
	if v.Code != "" {
		return netip.Prefix{}, Violations{v}
	}
	return p, nil
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

// Fields of a rule, by bit.
const (
	ruleAction = 1 << iota
	ruleProtocol
	ruleSource
	ruleDestination
	rulePorts
)

var ruleFields = []string{"action", "protocol", "source_cidr", "destination_cidr", "ports"}

// rules reads a revision's rule list, 1..MaxRules long.
func (r *reader) rules() []Rule {
	rules, n := []Rule{}, 0
	ok := r.array("an array of rules", func(i int) {
		if n++; i >= MaxRules {
			r.skip()
			return
		}
		rules = append(rules, r.rule())
	})
	if ok && (n == 0 || n > MaxRules) {
		r.note("", CodeRulesOutOfRange, fmt.Sprintf("%d rules; a policy has 1 to %d", n, MaxRules))
	}
	return rules
}

func (r *reader) rule() (rule Rule) {
	var seen uint
	ok := r.object("a rule", func(name []byte) bool {
		switch string(name) {
		case "action":
			seen |= ruleAction
			rule.Action = r.action()
		case "protocol":
			seen |= ruleProtocol
			rule.Protocol = r.protocol()
		case "source_cidr":
			seen |= ruleSource
			rule.Source = r.cidr()
		case "destination_cidr":
			seen |= ruleDestination
			rule.Destination = r.cidr()
		case "ports":
			seen |= rulePorts
			rule.Ports = r.ports()
		default:
			return false
		}
		return true
	})
	if ok {
		r.require(ruleAction|ruleProtocol|ruleSource|ruleDestination, seen, ruleFields)
		r.agree(rule, seen&rulePorts != 0)
	}
	return rule
}

// agree notes where the fields of one rule contradict each other.
func (r *reader) agree(rule Rule, ports bool) {
	if rule.Source.IsValid() && rule.Destination.IsValid() &&
		rule.Source.Addr().Is4() != rule.Destination.Addr().Is4() {
		r.note("/destination_cidr", CodeCIDRFamilyMismatch, fmt.Sprintf(
			"%s and %s are of different address families; write both as IPv4 or both as IPv6", rule.Source, rule.Destination))
	}
	switch {
	case rule.Protocol == "":
	case rule.Protocol.HasPorts() && !ports:
		r.note("/ports", CodePortsRequired, string(rule.Protocol)+` needs ports, such as {"from":1,"to":65535}`)
	case !rule.Protocol.HasPorts() && ports:
		r.note("/ports", CodePortsForbidden, string(rule.Protocol)+" has no ports; remove them")
	}
}

func (r *reader) action() Action {
	b, ok := r.text("a string")
	switch string(b) {
	case string(Allow):
		return Allow
	case string(Deny):
		return Deny
	case string(Log):
		return Log
	}
	if ok {
		r.note("", CodeUnknownAction, fmt.Sprintf("%.32q is not an action; use allow, deny or log", b))
	}
	return ""
}

func (r *reader) protocol() Protocol {
	b, ok := r.text("a string")
	switch string(b) {
	case string(TCP):
		return TCP
	case string(UDP):
		return UDP
	case string(ICMP):
		return ICMP
	case string(Any):
		return Any
	}
	if ok {
		r.note("", CodeUnknownProtocol, fmt.Sprintf("%.32q is not a protocol; use tcp, udp, icmp or any", b))
	}
	return ""
}

func (r *reader) cidr() netip.Prefix {
	b, ok := r.text("a CIDR string")
	if !ok {
		return netip.Prefix{}
	}
	p, v := parseCIDR(string(b))
	if v.Code != "" {
		r.note("", v.Code, v.Detail)
		return netip.Prefix{}
	}
	return p
}

var portFields = []string{"from", "to"}

func (r *reader) ports() (p Ports) {
	var seen uint
	ok := r.object("a port range", func(name []byte) bool {
		switch string(name) {
		case "from":
			seen |= 1
			p.From = r.port()
		case "to":
			seen |= 2
			p.To = r.port()
		default:
			return false
		}
		return true
	})
	if !ok {
		return Ports{}
	}
	r.require(3, seen, portFields)
	if p.From > p.To && p.To != 0 {
		r.note("", CodePortRangeInverted, fmt.Sprintf("from %d is above to %d; swap them", p.From, p.To))
	}
	return p
}

// port reads an integer 1..65535; 0 stands for one that is not.
func (r *reader) port() uint16 {
	if !r.expect('0', "an integer") {
		return 0
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return 0
	}
	if bytes.ContainsAny(v, ".eE") {
		r.note("", CodeWrongType, fmt.Sprintf("want an integer, found %.32s", v))
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 16)
	if err != nil || n == 0 {
		r.note("", CodePortOutOfRange, fmt.Sprintf("%.32s is not a port; ports are 1 to 65535", v))
		return 0
	}
	return uint16(n)
}

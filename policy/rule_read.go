package policy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
)

// Fields of a rule, by bit.
const (
	ruleAction = 1 << iota
	ruleProtocol
	ruleSource
	ruleDestination
	rulePorts
	ruleSourceSelector
	ruleDestinationSelector
	ruleProxyPort
	ruleListenerPriority
	ruleAuth
)

var ruleFields = []string{
	"action", "protocol", "source_cidr", "destination_cidr", "ports",
	"source_selector", "destination_selector", "proxy_port", "listener_priority", "auth",
}

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
		bit := fieldBit(ruleFields, name)
		seen |= bit
		return r.ruleField(&rule, bit)
	})
	if !ok {
		return rule
	}
	need := uint(ruleAction | ruleProtocol | ruleSource | ruleDestination)
	if seen&ruleSourceSelector != 0 {
		need &^= ruleSource
	}
	if seen&ruleDestinationSelector != 0 {
		need &^= ruleDestination
	}
	r.require(need, seen, ruleFields)
	r.agree(rule, seen)
	r.agreeOrdered(rule, seen)
	return rule
}

func (r *reader) ruleField(rule *Rule, bit uint) bool {
	switch bit {
	case ruleAction:
		rule.Action = r.action()
	case ruleProtocol:
		rule.Protocol = r.protocol()
	case ruleSource:
		rule.Source = r.cidr()
	case ruleDestination:
		rule.Destination = r.cidr()
	case rulePorts:
		rule.Ports = r.ports()
	case ruleSourceSelector:
		rule.SourceSelector = r.expr().Canonical()
	case ruleDestinationSelector:
		rule.DestinationSelector = r.expr().Canonical()
	case ruleProxyPort:
		rule.ProxyPort = r.port()
	case ruleListenerPriority:
		rule.ListenerPriority = r.listenerPriority()
	case ruleAuth:
		rule.Auth = r.auth()
	default:
		return false
	}
	return true
}

// agree notes where the fields of one rule contradict each other.
func (r *reader) agree(rule Rule, seen uint) {
	if rule.Source.IsValid() && rule.Destination.IsValid() &&
		rule.Source.Addr().Is4() != rule.Destination.Addr().Is4() {
		r.note("/destination_cidr", CodeCIDRFamilyMismatch, fmt.Sprintf(
			"%s and %s are of different address families; write both as IPv4 or both as IPv6", rule.Source, rule.Destination))
	}
	ports := seen&rulePorts != 0
	switch {
	case rule.Protocol == "":
	case rule.Protocol.HasPorts() && !ports:
		r.note("/ports", CodePortsRequired, string(rule.Protocol)+` needs ports, such as {"from":1,"to":65535}`)
	case !rule.Protocol.HasPorts() && ports:
		r.note("/ports", CodePortsForbidden, string(rule.Protocol)+" has no ports; remove them")
	}
}

// agreeOrdered is agree for the fields of ordered policy.
func (r *reader) agreeOrdered(rule Rule, seen uint) {
	has := func(bit uint) bool { return seen&bit != 0 }
	if has(ruleSource) && has(ruleSourceSelector) {
		r.note("/source_selector", CodeSelectorAndCIDR, "the source is a CIDR already; keep source_selector or source_cidr")
	}
	if has(ruleDestination) && has(ruleDestinationSelector) {
		r.note("/destination_selector", CodeSelectorAndCIDR, "the destination is a CIDR already; keep destination_selector or destination_cidr")
	}
	if rule.Action == "" {
		return // which members it allows is unknown
	}
	redirect := rule.Action == Redirect
	switch {
	case redirect && !has(ruleProxyPort):
		r.note("/proxy_port", CodeProxyPortRequired, "redirect needs the port of the node's proxy")
	case !redirect && has(ruleProxyPort):
		r.note("/proxy_port", CodeProxyPortForbidden, "only redirect has a proxy port; remove it from this "+string(rule.Action))
	}
	if !redirect && has(ruleListenerPriority) {
		r.note("/listener_priority", CodeListenerPriorityForbidden,
			"only redirect has a listener priority; remove it from this "+string(rule.Action))
	}
	if !redirect && rule.Action != Allow && has(ruleAuth) {
		r.note("/auth", CodeAuthForbidden, "only allow and redirect have auth; remove it from this "+string(rule.Action))
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
	case string(Pass):
		return Pass
	case string(Redirect):
		return Redirect
	}
	if ok {
		r.note("", CodeUnknownAction, fmt.Sprintf("%.32q is not an action; use allow, deny, log, pass or redirect", b))
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
	case string(SCTP):
		return SCTP
	case string(ICMP):
		return ICMP
	case string(Any):
		return Any
	}
	if ok {
		r.note("", CodeUnknownProtocol, fmt.Sprintf("%.32q is not a protocol; use tcp, udp, sctp, icmp or any", b))
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
	n, _ := r.number(1, 1<<16-1, CodePortOutOfRange, "a port; ports are 1 to 65535")
	return uint16(n)
}

func (r *reader) listenerPriority() uint8 {
	n, _ := r.number(1, MaxListenerPriority, CodeListenerPriorityOutOfRange,
		fmt.Sprintf("a listener priority; they are 1 to %d, lower first", MaxListenerPriority))
	return uint8(n)
}

func (r *reader) auth() Auth {
	b, ok := r.text("a string")
	switch string(b) {
	case string(AuthRequired):
		return AuthRequired
	case string(AuthDisabled):
		return AuthDisabled
	}
	if ok {
		r.note("", CodeUnknownAuth, fmt.Sprintf("%.32q is not an auth; use required or disabled", b))
	}
	return ""
}

// number reads an integer from least to most; another one is noted under code.
func (r *reader) number(least, most uint64, code, what string) (n uint64, ok bool) {
	if !r.expect('0', "an integer") {
		return 0, false
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return 0, false
	}
	if bytes.ContainsAny(v, ".eE") {
		r.note("", CodeWrongType, fmt.Sprintf("want an integer, found %.32s", v))
		return 0, false
	}
	n, err = strconv.ParseUint(string(v), 10, 64)
	if err != nil || n < least || n > most {
		r.note("", code, fmt.Sprintf("%.32s is not %s", v, what))
		return 0, false
	}
	return n, true
}

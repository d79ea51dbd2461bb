package policy

import (
	"fmt"
	"net/netip"
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
	ruleDirection
)

var ruleFields = []string{
	"action", "protocol", "source_cidr", "destination_cidr", "ports",
	"source_selector", "destination_selector", "proxy_port", "listener_priority", "auth", "direction",
}

// ruleSides are the fields that say who is at the sides of a rule, of which each has one.
var ruleSides = [...]struct {
	name           string
	cidr, selector uint
}{{"source", ruleSource, ruleSourceSelector}, {"destination", ruleDestination, ruleDestinationSelector}}

// readRules reads a revision's rule list, 1..MaxRules long.
func readRules(r *reader) []Rule {
	rules, n := []Rule{}, 0
	ok := r.array("an array of rules", func(i int) {
		if n++; i >= MaxRules {
			r.skip()
			return
		}
		rules = append(rules, readRule(r))
	})
	if ok && (n == 0 || n > MaxRules) {
		r.note("", CodeRulesOutOfRange, fmt.Sprintf("%d rules; a policy has 1 to %d", n, MaxRules))
	}
	return rules
}

func readRule(r *reader) (rule Rule) {
	var seen uint
	ok := r.object("a rule", func(name []byte) bool {
		bit := fieldBit(ruleFields, name)
		seen |= bit
		return readRuleField(r, &rule, bit)
	}, allOf(ruleFields))
	if !ok {
		return rule
	}
	r.require(ruleAction|ruleProtocol, seen, ruleFields)
	for _, side := range ruleSides {
		if seen&(side.cidr|side.selector) == 0 && !r.ended {
			r.note("/"+side.name+"_cidr", CodeMissing, side.name+"_cidr is required, or "+side.name+`_selector, such as "role=web"`)
		}
	}
	checkRule(r, rule, seen)
	checkOrdered(r, rule, seen)
	return rule
}

func readRuleField(r *reader, rule *Rule, bit uint) bool {
	switch bit {
	case ruleAction:
		rule.Action = readAction(r)
	case ruleProtocol:
		rule.Protocol = readProtocol(r)
	case ruleSource:
		rule.Source = readCIDR(r)
	case ruleDestination:
		rule.Destination = readCIDR(r)
	case rulePorts:
		rule.Ports = readPorts(r)
	case ruleSourceSelector:
		rule.SourceSelector = readExpr(r).Canonical()
	case ruleDestinationSelector:
		rule.DestinationSelector = readExpr(r).Canonical()
	case ruleProxyPort:
		rule.ProxyPort = readPort(r)
	case ruleListenerPriority:
		rule.ListenerPriority = readListenerPriority(r)
	case ruleAuth:
		rule.Auth = readAuth(r)
	case ruleDirection:
		rule.Direction = readDirection(r)
	default:
		return false
	}
	return true
}

// checkRule notes where the fields of one rule contradict each other.
func checkRule(r *reader, rule Rule, seen uint) {
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

// checkOrdered is agree for the fields of ordered policy.
func checkOrdered(r *reader, rule Rule, seen uint) {
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

func readAction(r *reader) Action {
	return readOneOf(r, CodeUnknownAction, "is not an action; use allow, deny, log, pass or redirect", Allow, Deny, Log, Pass, Redirect)
}

func readProtocol(r *reader) Protocol {
	return readOneOf(r, CodeUnknownProtocol, "is not a protocol; use tcp, udp, sctp, icmp or any", TCP, UDP, SCTP, ICMP, Any)
}

func readCIDR(r *reader) netip.Prefix {
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

func readPorts(r *reader) (p Ports) {
	var seen uint
	ok := r.object("a port range", func(name []byte) bool {
		switch string(name) {
		case "from":
			seen |= 1
			p.From = readPort(r)
		case "to":
			seen |= 2
			p.To = readPort(r)
		default:
			return false
		}
		return true
	}, allOf(portFields))
	if !ok {
		return Ports{}
	}
	r.require(3, seen, portFields)
	if p.From > p.To && p.To != 0 {
		r.note("", CodePortRangeInverted, fmt.Sprintf("from %d is above to %d; swap them", p.From, p.To))
	}
	return p
}

// readPort reads an integer 1..65535; 0 stands for one that is not.
func readPort(r *reader) uint16 {
	n, _ := r.number(1, 1<<16-1, CodePortOutOfRange, "a port; ports are 1 to 65535")
	return uint16(n)
}

func readListenerPriority(r *reader) uint8 {
	n, _ := r.number(1, MaxListenerPriority, CodeListenerPriorityOutOfRange,
		fmt.Sprintf("a listener priority; they are 1 to %d, lower first", MaxListenerPriority))
	return uint8(n)
}

func readAuth(r *reader) Auth {
	return readOneOf(r, CodeUnknownAuth, "is not an auth; use required or disabled", AuthRequired, AuthDisabled)
}

func readDirection(r *reader) Direction {
	return readOneOf(r, CodeUnknownDirection, "is not a direction; use ingress or egress, or leave it out: the rule is then asked at both ends", Ingress, Egress)
}

// readOneOf reads a text of a closed set; "" stands for one that is not of it, which
// is noted under a code, and why says what is.
func readOneOf[T ~string](r *reader, code, why string, of ...T) T {
	b, ok := r.text("a string")
	for _, v := range of {
		if string(b) == string(v) {
			return v
		}
	}
	if ok {
		r.note("", code, fmt.Sprintf("%.32q %s", b, why))
	}
	return ""
}

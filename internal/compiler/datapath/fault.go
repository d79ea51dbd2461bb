package datapath

import (
	"errors"
	"fmt"
)

// Fault is one thing wrong with one rule or identity of the input. Errors of
// Build and State.Apply join all there are; errors.As finds the first.
type Fault struct {
	Rule      Ref // of a rule
	Direction Direction
	Identity  string // the name of an identity, where one is at fault
	Field     string
	Detail    string
}

func (f *Fault) Error() string {
	if f.Identity != "" || f.Field == "name" {
		return fmt.Sprintf("identity %.128q: %s: %s", f.Identity, f.Field, f.Detail)
	}
	return fmt.Sprintf("policy %s, rule %d (%s): %s: %s", f.Rule.Policy, f.Rule.Index, f.Direction, f.Field, f.Detail)
}

// CapacityError says that a table would hold more entries than it may.
type CapacityError struct {
	Entries, Capacity int
	Egress, Ingress   int  // of Entries
	More              bool // counting stopped: there are more than Entries
}

func (e *CapacityError) Error() string {
	more := ""
	if e.More {
		more = "more than "
	}
	return fmt.Sprintf("%s%d entries (%d egress, %d ingress), and the table holds %d: use fewer selectors or wider port ranges, or allow more entries",
		more, e.Entries, e.Egress, e.Ingress, e.Capacity)
}

// LevelsError says that the rules of one direction stand at more levels than a
// precedence can tell apart.
type LevelsError struct {
	Direction        Direction
	Levels, Capacity int
}

func (e *LevelsError) Error() string {
	return fmt.Sprintf("%s rules stand at %d levels (distinct tier, priority and index), and a table tells %d apart: give more rules the same priority",
		e.Direction, e.Levels, e.Capacity)
}

// check notes everything that is wrong with a rule.
func (r *Rule) check() error {
	var all []error
	fault := func(field, format string, args ...any) {
		all = append(all, &Fault{Rule: r.Ref, Direction: r.Direction, Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	if r.Direction != Egress && r.Direction != Ingress {
		fault("direction", "set Egress or Ingress")
	}
	if r.Tier < Admin || r.Tier > Baseline {
		fault("tier", "is %s; set Admin, Normal or Baseline", r.Tier)
	}
	if r.Priority > MaxPriority {
		fault("priority", "%d is above %d", r.Priority, MaxPriority)
	}
	if r.Ref.Policy == "" {
		fault("policy", "is empty; an entry names it")
	}
	if r.Ref.Index < 0 {
		fault("index", "%d is below 0", r.Ref.Index)
	}
	r.checkPeer(fault)
	r.checkPorts(fault)
	r.checkVerdict(fault)
	return errors.Join(all...)
}

func (r *Rule) checkPeer(fault func(field, format string, args ...any)) {
	p := &r.Peer
	switch named := p.CIDR.IsValid() || len(p.Selectors) > 0; {
	case p.Any && named:
		fault("peer", "is any and also %s; set one of them", Peer{Selectors: p.Selectors, CIDR: p.CIDR})
	case !p.Any && !named:
		fault("peer", "is nobody; set a selector, a CIDR, or any")
	case p.CIDR.IsValid() && p.CIDR != p.CIDR.Masked():
		fault("peer", "%s has host bits set; use %s", p.CIDR, p.CIDR.Masked())
	}
}

func (r *Rule) checkPorts(fault func(field, format string, args ...any)) {
	switch {
	case r.Protocol != AnyProtocol && r.Protocol != ICMP && !r.Protocol.hasPorts():
		fault("protocol", "%d is none a rule can name; use tcp, udp, sctp, icmp or any", r.Protocol)
	case r.Ports.From > r.Ports.To:
		fault("ports", "from %d is above to %d", r.Ports.From, r.Ports.To)
	case r.Protocol == ICMP && r.Ports.To != 0:
		fault("ports", "icmp has no ports; remove them")
	case r.Ports.From == 0 && r.Ports.To != 0:
		fault("ports", "port 0 cannot be named; begin at 1")
	}
}

func (r *Rule) checkVerdict(fault func(field, format string, args ...any)) {
	if r.Verdict < Deny || r.Verdict > Log {
		fault("action", "is %s; set Deny, Redirect, Allow, Pass or Log", r.Verdict)
	}
	switch redirect := r.Verdict == Redirect; {
	case redirect && r.ProxyPort == 0:
		fault("proxy_port", "a redirect needs one")
	case !redirect && r.ProxyPort != 0:
		fault("proxy_port", "only a redirect has one")
	}
	switch {
	case r.ListenerPriority > MaxListenerPriority:
		fault("listener_priority", "%d is above %d", r.ListenerPriority, MaxListenerPriority)
	case r.Verdict != Redirect && r.ListenerPriority != 0:
		fault("listener_priority", "only a redirect has one")
	}
	if r.Auth > AuthDisabled {
		fault("auth", "is %s; set AuthUnset, AuthRequired or AuthDisabled", r.Auth)
	}
}

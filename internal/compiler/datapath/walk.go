package datapath

import "fmt"

// Step is a rule that a walk considered.
type Step struct {
	Rule    *Rule // shared: do not modify
	Matched bool  // direction, peer, protocol and port are the flow's
	// Reason is why the rule did not decide, or what it did: a short sentence.
	Reason string
	// By is the pass that skipped the rule; nil: none did.
	By *Rule
}

// Walk goes down the ordered list of a flow's direction, the slow way, and says
// of each rule why it did not decide, up to the one that did, which is the last
// step. Where none did, decided is false: the direction's default is the answer.
// It comes to the verdict, proxy port and rule of Lookup. What it does not show
// is where auth comes from.
func (t *Table) Walk(d Direction, id ID, p Protocol, port uint16) (steps []Step, decided bool) {
	if d != Egress && d != Ingress {
		return nil, false
	}
	var passed [tiers]*Rule
	who := t.Identity(id)
	for _, r := range t.lists[d-Egress].rules {
		s := Step{Rule: r}
		s.Reason, s.Matched = r.misses(who, p, port)
		by := passed[r.Tier-Admin]
		switch {
		case !s.Matched:
		case by != nil:
			s.Reason = fmt.Sprintf("skipped: policy %s, rule %d passed the rest of tier %s", by.Ref.Policy, by.Ref.Index, r.Tier)
			s.By = by
		case r.Verdict == Log:
			s.Reason = "log never decides"
		case r.Verdict == Pass:
			passed[r.Tier-Admin] = r
			s.Reason = fmt.Sprintf("passes the rest of tier %s", r.Tier)
		default:
			s.Reason = "decides: " + r.Verdict.String()
			decided = true
		}
		steps = append(steps, s)
		if decided {
			break
		}
	}
	return steps, decided
}

// DefaultVerdict is what happens to flows of a direction that no rule decides:
// Allow or Deny.
func (t *Table) DefaultVerdict(d Direction) Verdict {
	if d != Egress && d != Ingress {
		return Deny
	}
	return t.lists[d-Egress].otherwise.Verdict
}

// misses says why a flow is not one of r's, or that it is.
func (r *Rule) misses(who *Identity, p Protocol, port uint16) (reason string, matched bool) {
	switch {
	case !r.Peer.Any && who == nil:
		return fmt.Sprintf("the peer has no identity, and the rule is for %s", r.Peer), false
	case !r.Peer.Any && !r.Peer.holds(who):
		return fmt.Sprintf("the peer is not in %s", r.Peer), false
	case r.Protocol != AnyProtocol && r.Protocol != p:
		return fmt.Sprintf("the protocol is %s, and the rule is for %s", p, r.Protocol), false
	case r.everyPort():
		return "", true
	case !p.hasPorts():
		return fmt.Sprintf("%s has no ports, and the rule is for some", p), false
	case port < r.Ports.From || port > r.Ports.To:
		return fmt.Sprintf("port %d is outside %d to %d", port, r.Ports.From, r.Ports.To), false
	}
	return "", true
}

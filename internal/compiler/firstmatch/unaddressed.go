package firstmatch

import (
	"net/netip"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// Unaddressed are the rules of a node without addresses. Nobody can say which
// direction a flow of it has, so the rules stand in one list for both, between the
// CIDRs that their author wrote. Where one names a side by selector, that is every
// address, and what it would allow is denied. written gives a rule as its author
// wrote it. What a rule of one direction decides is denied, too.
func Unaddressed(t *datapath.Table, written func(datapath.Ref) policy.Rule) (rules []policy.Rule, omitted int) {
	l, sixes := &List{refs: map[datapath.Ref]bool{}}, false
	var lines []line
	for _, r := range t.InOrder() {
		w := written(r.Ref)
		next := lineOf(r, side(w.Source), side(w.Destination))
		if (w.SourceSelector != "" || w.DestinationSelector != "" || w.Direction != "") && next.action != datapath.Log {
			next.action, next.exact = datapath.Deny, false
		}
		lines = l.take(lines, next)
		sixes = sixes || w.Source.Addr().Is6() || w.Destination.Addr().Is6()
	}
	otherwise := datapath.Allow
	for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
		if t.DefaultVerdict(d) == datapath.Deny {
			otherwise = datapath.Deny
		}
	}
	l.resolve(0, lines, otherwise)
	if !l.tooMuch {
		for i := range l.directions[0] {
			rules = l.directions[0][i].between(rules, sixes)
		}
	}
	if l.tooMuch || len(rules) > MaxRules {
		return (&verdict{action: datapath.Deny}).between(nil, sixes), len(l.refs)
	}
	for _, some := range l.refs {
		if some {
			omitted++
		}
	}
	return rules, omitted
}

func side(cidr netip.Prefix) []netip.Prefix {
	if !cidr.IsValid() {
		return everyone
	}
	return []netip.Prefix{cidr}
}

// between appends the rules of a verdict between the addresses of both its sides.
func (v *verdict) between(rules []policy.Rule, sixes bool) []policy.Rule {
	for _, v4 := range []bool{true, false} {
		self, ok1 := narrower(v.self, all(v4))
		peer, ok2 := narrower(v.peer, all(v4))
		if ok1 && ok2 && (v4 || sixes) {
			rules = append(rules, v.plain(self, peer))
		}
	}
	return rules
}

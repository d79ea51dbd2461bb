package firstmatch

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// MaxRules is how many rules a node's list has at most. Where it would have more,
// allows are left out, those that take most rules first.
const MaxRules = 4096

// List is what all nodes that enforce one table have in common. It never changes.
type List struct {
	directions [2][]verdict
	refs       map[datapath.Ref]bool // all rules; true: not all of it is said
	tooMuch    bool                  // to be worked out
	split      bool
}

// Of works out the list of a table. What it says of nodes' addresses is what
// peers say.
func Of(t *datapath.Table, peers Peers) *List {
	l, known, boxes := &List{refs: map[datapath.Ref]bool{}}, map[string][]netip.Prefix{}, 0
	for n := range l.directions {
		d := datapath.Egress + datapath.Direction(n)
		var lines []line
		for _, r := range t.Rules(d) {
			if boxes > maxLooks { // nobody would come to the end of them
				l.refs[r.Ref], l.tooMuch = true, true
				continue
			}
			name := r.Peer.String()
			prefixes, ok := known[name]
			if !ok {
				prefixes = prefixesOf(r.Peer, peers)
				l.split = l.split || r.Peer.CIDR.IsValid() && len(prefixes) > 1
				known[name] = prefixes
			}
			lines = l.take(lines, lineOf(r, everyone, prefixes))
			boxes += lines[len(lines)-1].size()
		}
		if !l.tooMuch {
			l.resolve(n, lines, t.DefaultVerdict(d))
		}
	}
	return l
}

func (l *List) take(lines []line, next line) []line {
	l.refs[next.Ref] = l.refs[next.Ref] || !next.exact
	return append(lines, next)
}

func (l *List) resolve(n int, lines []line, otherwise datapath.Verdict) {
	var ok bool
	if l.directions[n], ok = resolve(lines, otherwise); !ok {
		l.tooMuch = true
	}
}

// Rules are the rules of a node that has these addresses. omitted is how many
// rules of its policies they do not say all of: their flows are denied.
func (l *List) Rules(self policy.Addresses) (rules []policy.Rule, omitted int) {
	left, fits := l.leftOut(self)
	if !fits {
		return Closed(self), len(l.refs)
	}
	for d, verdicts := range l.directions {
		for i := range verdicts {
			if v := &verdicts[i]; v.rule == nil || v.action != datapath.Allow || !left[v.rule.Ref] {
				rules = v.append(rules, datapath.Egress+datapath.Direction(d), self)
			}
		}
	}
	for ref, some := range l.refs {
		if some || left[ref] {
			omitted++
		}
	}
	return rules, omitted
}

// Split reports whether a CIDR of a rule's peer holds an address of a node that has
// another one elsewhere.
func (l *List) Split() bool { return l.split }

// TooLarge reports whether the rules of a node that has these addresses leave allows
// out, because they would be more than MaxRules.
func (l *List) TooLarge(self policy.Addresses) bool {
	left, fits := l.leftOut(self)
	return !fits || len(left) > 0
}

// Closed are rules that deny everything to and from a node.
func Closed(self policy.Addresses) (rules []policy.Rule) {
	v := verdict{action: datapath.Deny}
	return v.append(v.append(nil, datapath.Egress, self), datapath.Ingress, self)
}

// leftOut is the rules whose allows are left out so that the others fit.
func (l *List) leftOut(self policy.Addresses) (left map[datapath.Ref]bool, fits bool) {
	if l.tooMuch {
		return nil, false
	}
	type share struct{ rules, last int }
	total, allows := 0, map[datapath.Ref]share{}
	for _, verdicts := range l.directions {
		for i := range verdicts {
			v := &verdicts[i]
			n := v.count(self)
			total += n
			if v.rule != nil && v.action == datapath.Allow {
				allows[v.rule.Ref] = share{allows[v.rule.Ref].rules + n, i}
			}
		}
	}
	if total <= MaxRules {
		return nil, true
	}
	refs := make([]datapath.Ref, 0, len(allows))
	for ref := range allows {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b datapath.Ref) int {
		return cmp.Or(cmp.Compare(allows[b].rules, allows[a].rules), cmp.Compare(allows[b].last, allows[a].last),
			cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Index, b.Index))
	})
	left = map[datapath.Ref]bool{}
	for _, ref := range refs {
		if total <= MaxRules {
			break
		}
		left[ref] = true
		total -= allows[ref].rules
	}
	return left, total <= MaxRules
}

// count is how many rules a verdict takes for a node.
func (v *verdict) count(self policy.Addresses) (n int) {
	for _, a := range self {
		if !v.peer.IsValid() || v.peer.Addr().Is4() == a.Is4() {
			n++
		}
	}
	return n
}

// append appends the rules of a verdict for a node.
func (v *verdict) append(rules []policy.Rule, d datapath.Direction, self policy.Addresses) []policy.Rule {
	for _, a := range self {
		peer := v.peer
		switch {
		case !peer.IsValid():
			peer = all(a.Is4())
		case peer.Addr().Is4() != a.Is4():
			continue
		}
		own := netip.PrefixFrom(a, a.BitLen())
		if d == datapath.Ingress {
			own, peer = peer, own
		}
		rules = append(rules, v.plain(own, peer))
	}
	return rules
}

// plain is the verdict as a rule between two CIDRs.
func (v *verdict) plain(source, destination netip.Prefix) policy.Rule {
	return policy.Rule{
		Source: source, Destination: destination, Protocol: policy.Protocol(v.protocol.String()),
		Ports: v.ports, Action: policy.Action(v.action.String()),
	}
}

var all4, all6 = netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")

func all(v4 bool) netip.Prefix {
	if v4 {
		return all4
	}
	return all6
}

// Package firstmatch answers, the slow and obvious way, what a node's ordered
// list says about a flow: it sorts the rules and walks down.
//
// It judges internal/compiler/datapath and shares nothing with it: names instead of
// numbers, addresses instead of identities, one flow at a time. It knows no
// table, no precedence word and no look-up. A port range it knows as the largest
// aligned block of it that holds the flow's port, because that is how far an
// authentication requirement reaches (docs/datapath.md).
package firstmatch

import (
	"net/netip"
	"slices"
	"sort"
)

// Rule is one line of the list.
type Rule struct {
	Egress   bool
	Tier     string // admin, normal or baseline
	Priority int
	Ordered  bool // the index counts before the action
	Policy   string
	Index    int

	Groups    []string // the peer is a node in all of them
	CIDR      netip.Prefix
	Protocol  string // any, tcp, udp, sctp, icmp
	From, To  int    // 0, 0: no ports are named
	Action    string // allow, deny, redirect, pass, log
	ProxyPort int
	Listener  int    // of a redirect: 0 is behind all others
	Auth      string // "", required, disabled
	Open      bool   // the policy says default_deny: false
}

// Flow is what is asked about.
type Flow struct {
	Egress    bool
	Node      bool // the peer is a node, in Groups
	Groups    []string
	Addresses []netip.Addr // of the peer
	Protocol  string
	Port      int
}

// Answer is what becomes of a flow.
type Answer struct {
	Action  string
	Auth    bool  // required
	Rule    *Rule // who decided; nil: the default
	Passed  bool  // a pass was met on the way
	Skipped int   // rules that would have matched, had no pass been met
}

// List is a node's rules in order.
type List struct{ rules []Rule }

// New sorts the rules.
func New(rules []Rule) List {
	sorted := slices.Clone(rules)
	sort.SliceStable(sorted, func(i, j int) bool { return before(&sorted[i], &sorted[j]) })
	return List{sorted}
}

var tierOrder = map[string]int{"admin": 0, "normal": 1, "baseline": 2}

func (r *Rule) step() int {
	if r.Ordered {
		return r.Index
	}
	return 0
}

// strength is the place of an action among those of one level, lower first.
func (r *Rule) strength() int {
	switch {
	case r.Action == "deny":
		return 0
	case r.Action == "redirect" && r.Listener > 0:
		return r.Listener
	case r.Action == "redirect":
		return 1000
	case r.Action == "allow":
		return 1001
	}
	return 1002
}

// rank is where a rule stands as far as its author can say.
func (r *Rule) rank() [4]int {
	return [4]int{tierOrder[r.Tier], r.Priority, r.step(), r.strength()}
}

func less(a, b [4]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func before(a, b *Rule) bool {
	if ra, rb := a.rank(), b.rank(); ra != rb {
		return less(ra, rb)
	}
	if a.Policy != b.Policy {
		return a.Policy < b.Policy
	}
	return a.Index < b.Index
}

func (r *Rule) anyone() bool { return len(r.Groups) == 0 && !r.CIDR.IsValid() }

func ported(protocol string) bool {
	return protocol == "tcp" || protocol == "udp" || protocol == "sctp"
}

// everyPort reports whether the rule leaves out no port: port 0 cannot be named,
// and belongs to all of them.
func (r *Rule) everyPort() bool { return r.To == 0 || r.From == 1 && r.To == 65535 }

func (r *Rule) matches(f Flow) bool {
	if r.Egress != f.Egress || r.Protocol != "any" && r.Protocol != f.Protocol {
		return false
	}
	if !r.everyPort() && (!ported(f.Protocol) || f.Port < r.From || f.Port > r.To) {
		return false
	}
	for _, g := range r.Groups {
		if !f.Node || !slices.Contains(f.Groups, g) {
			return false
		}
	}
	return !r.CIDR.IsValid() || slices.ContainsFunc(f.Addresses, r.CIDR.Contains)
}

// Decide walks down the list.
func (l List) Decide(f Flow) Answer {
	var a Answer
	passed := map[string]bool{}
	var reach []*Rule // rules that match and that no pass skips, in order
	denies := false
	for i := range l.rules {
		r := &l.rules[i]
		if r.Egress == f.Egress && !r.Open && (r.Action == "allow" || r.Action == "deny" || r.Action == "redirect") {
			denies = true
		}
		if r.Action == "log" || !r.matches(f) {
			continue
		}
		if passed[r.Tier] {
			if a.Rule == nil {
				a.Skipped++
			}
			continue
		}
		if r.Action == "pass" {
			passed[r.Tier] = true
			a.Passed = a.Passed || a.Rule == nil
			continue
		}
		reach = append(reach, r)
		if a.Rule == nil {
			a.Rule, a.Action = r, r.Action
		}
	}
	switch {
	case a.Rule != nil:
		a.Auth = a.Action != "deny" && auth(a.Rule, reach, f)
	case denies:
		a.Action = "deny"
	default:
		a.Action = "allow"
	}
	return a
}

// width is how much of the protocols and ports around the flow a rule means: the
// largest aligned block of ports that lies in its range.
func (r *Rule) width(f Flow) int {
	if r.everyPort() {
		if r.Protocol == "any" {
			return 1 << 20
		}
		return 1 << 16
	}
	size := 1
	for s := 2; s <= 1<<16; s *= 2 {
		if start := f.Port / s * s; start >= r.From && start+s-1 <= r.To {
			size = s
		}
	}
	return size
}

// auth asks the rules around the one that decided, w, for an explicit word.
func auth(w *Rule, reach []*Rule, f Flow) bool {
	level := func(r *Rule) [4]int {
		k := r.rank()
		k[3] = 0
		return k
	}
	var near []*Rule
	for _, r := range reach {
		if r.Auth == "" || r.Action == "deny" {
			continue
		}
		holds := r.width(f) >= w.width(f) && (r.anyone() || !w.anyone())
		if r.rank() == w.rank() || holds && level(r) == level(w) {
			near = append(near, r)
		}
	}
	closer := func(a, b *Rule) bool {
		if a.width(f) != b.width(f) {
			return a.width(f) < b.width(f)
		}
		if a.anyone() != b.anyone() {
			return b.anyone()
		}
		return a.Auth == "required" && b.Auth != "required"
	}
	if len(near) > 0 {
		sort.SliceStable(near, func(i, j int) bool { return closer(near[i], near[j]) })
		return near[0].Auth == "required"
	}
	return false
}

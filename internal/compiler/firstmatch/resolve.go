package firstmatch

import (
	"net/netip"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// verdict is a line of the result: what becomes of a box's flows that no line
// before it holds.
type verdict struct {
	box
	action datapath.Verdict // allow, deny or log
	rule   *datapath.Rule   // nil: the default
}

// These bound the work: beyond them everything is denied.
const (
	maxVerdicts = 1 << 16
	maxLooks    = 1 << 23 // at two boxes
)

// resolver goes down the lines of one direction.
type resolver struct {
	lines     []line
	needsAuth []int // lines that need authentication
	otherwise datapath.Verdict

	out   []verdict
	seen  map[netip.Prefix][]int // verdicts that decide, by the peer's addresses
	bits  [2][129]bool           // lengths of seen's prefixes, by family
	looks int
}

// resolve says what becomes of all flows. ok is false where that is too much work.
func resolve(lines []line, otherwise datapath.Verdict) (out []verdict, ok bool) {
	r := &resolver{lines: lines, otherwise: otherwise, seen: map[netip.Prefix][]int{}}
	for i, l := range lines {
		if l.action == datapath.Deny && l.Verdict == datapath.Allow {
			r.needsAuth = append(r.needsAuth, i)
		}
	}
	r.from(0, box{})
	return r.out, !r.over()
}

func (r *resolver) over() bool { return len(r.out) > maxVerdicts || r.looks > maxLooks }

// from says what becomes of the flows of a region by the lines from i on.
func (r *resolver) from(i int, region box) {
	for ; i < len(r.lines) && !r.over(); i++ {
		if whole := r.line(i, region); whole {
			return
		}
	}
	r.add(verdict{box: region, action: r.otherwise})
}

// line says what becomes of the flows of a region that a line holds. whole: it
// holds all, and none of them goes on to the next line.
func (r *resolver) line(i int, region box) (whole bool) {
	l := &r.lines[i]
	for b := range l.boxes {
		if r.looks++; r.over() {
			return true
		}
		both, ok := b.within(region)
		if !ok {
			continue
		}
		switch l.action {
		case datapath.Log:
			if region == (box{}) {
				r.out = append(r.out, verdict{both, datapath.Log, l.Rule})
			}
			continue
		case datapath.Pass:
			r.from(r.behind(l.Tier, i), both)
		default:
			r.decide(l, both)
		}
		if both == region {
			return true
		}
	}
	return false
}

// behind is the first line after i that is not of a tier.
func (r *resolver) behind(t datapath.Tier, i int) int {
	for i < len(r.lines) && r.lines[i].Tier == t {
		i++
	}
	return i
}

// decide adds what a line says of flows. Those for which a line asks for
// authentication that this one does not rule out are denied: a rule that says
// nothing of it may take it from another of its level.
func (r *resolver) decide(l *line, flows box) {
	if l.action == datapath.Allow && l.Auth == datapath.AuthUnset {
		for _, i := range r.needsAuth {
			if !datapath.SameLevel(r.lines[i].Rule, l.Rule) {
				continue
			}
			for b := range r.lines[i].boxes {
				if r.looks++; r.over() {
					return
				}
				if both, ok := b.within(flows); ok {
					r.add(verdict{both, datapath.Deny, r.lines[i].Rule})
				}
			}
		}
	}
	r.add(verdict{flows, l.action, l.Rule})
}

// add adds a verdict, unless one before it covers all its flows.
func (r *resolver) add(v verdict) {
	if r.covered(v.box) {
		return
	}
	r.seen[v.peer] = append(r.seen[v.peer], len(r.out))
	if v.peer.IsValid() {
		r.bits[family(v.peer.Addr())][v.peer.Bits()] = true
	}
	r.out = append(r.out, v)
}

func (r *resolver) covered(b box) bool {
	if r.coveredBy(netip.Prefix{}, b) {
		return true
	}
	if !b.peer.IsValid() {
		return false
	}
	for n := b.peer.Bits(); n >= 0; n-- {
		if !r.bits[family(b.peer.Addr())][n] {
			continue
		}
		if p, err := b.peer.Addr().Prefix(n); err == nil && r.coveredBy(p, b) {
			return true
		}
	}
	return false
}

func (r *resolver) coveredBy(peer netip.Prefix, b box) bool {
	for _, i := range r.seen[peer] {
		if r.looks++; r.out[i].covers(b) {
			return true
		}
	}
	return false
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

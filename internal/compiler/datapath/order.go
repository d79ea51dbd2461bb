package datapath

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Classes, the low byte of a precedence: higher goes first.
const (
	classPass     = 0
	classAllow    = 1
	classRedirect = 2 // without a listener priority
	classDeny     = 255
)

// levels is how many levels a precedence tells apart.
const levels = 1 << 24

// class is the low byte of the precedence of what r says.
func (r *Rule) class() uint8 {
	switch r.Verdict {
	case Deny:
		return classDeny
	case Redirect:
		if r.ListenerPriority > 0 {
			return classDeny - r.ListenerPriority
		}
		return classRedirect
	case Allow:
		return classAllow
	}
	return classPass
}

// step is the part of the level that the author's order gives.
func (r *Rule) step() int {
	if r.Ordered {
		return r.Ref.Index
	}
	return 0
}

// compareLevels is the order as far as levels go.
func compareLevels(a, b *Rule) int {
	return cmp.Or(
		cmp.Compare(a.Tier, b.Tier),
		cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.step(), b.step()),
	)
}

// compareRules is the total order of docs/datapath.md#the-order. What stands behind the
// index tells apart rules that share a Ref, so that the order they came in never
// shows.
func compareRules(a, b *Rule) int {
	if c := cmp.Or(compareLevels(a, b), -cmp.Compare(a.class(), b.class())); c != 0 {
		return c
	}
	return compareWithin(a, b)
}

// compareWithin is the order of rules of one level and one class.
func compareWithin(a, b *Rule) int {
	if c := cmp.Or(strings.Compare(a.Ref.Policy, b.Ref.Policy), cmp.Compare(a.Ref.Index, b.Ref.Index)); c != 0 {
		return c
	}
	return cmp.Or(
		strings.Compare(a.Ref.Revision, b.Ref.Revision),
		cmp.Compare(a.Verdict, b.Verdict),
		cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.Ports.From, b.Ports.From),
		cmp.Compare(a.Ports.To, b.Ports.To),
		cmp.Compare(a.ProxyPort, b.ProxyPort),
		cmp.Compare(a.Auth, b.Auth),
		strings.Compare(a.Peer.key(), b.Peer.key()),
	)
}

// place is a rule among those of one direction, by what its order begins with.
type place struct {
	tier, step uint64 // with the priority, and with the class
	at         int32  // index of the rule
}

// inOrder are the indexes of the rules of one direction in total order.
func inOrder(d Direction, rules []Rule) []int32 {
	places := make([]place, 0, len(rules))
	for i := range rules {
		if r := &rules[i]; r.Direction == d {
			places = append(places, place{uint64(r.Tier)<<32 | uint64(r.Priority), uint64(r.step())<<8 | uint64(math.MaxUint8-r.class()), int32(i)})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.step, b.step)); c != 0 {
			return c
		}
		return compareWithin(&rules[a.at], &rules[b.at])
	})
	order := make([]int32, len(places))
	for i := range places {
		order[i] = places[i].at
	}
	return order
}

// precedences is the precedence of each of one direction's sorted rules:
// (0xFFFFFF - level) << 8 | class, where the levels that occur are 0, 1, 2 and so
// on. Log rules decide nothing, so they make no level.
func precedences(d Direction, rules []*Rule, capacity int) ([]uint32, error) {
	out := make([]uint32, len(rules))
	level, last := -1, (*Rule)(nil)
	for i, r := range rules {
		if r.Verdict == Log {
			continue
		}
		if last == nil || compareLevels(last, r) != 0 {
			level++
		}
		last = r
		out[i] = (levels-1-uint32(min(level, levels-1)))<<8 | uint32(r.class())
	}
	if level >= capacity {
		return nil, &LevelsError{Direction: d, Levels: level + 1, Capacity: capacity}
	}
	return out, nil
}

// none stands for no rule where the index of one is asked for: it is behind all.
const none = int32(math.MaxInt32)

// line is a rule that decides or passes, ready to be laid into tables.
type line struct {
	rule  *Rule
	prec  uint32
	peer  int32 // index of the peer among the program's, -1 for any
	tier  uint8 // from 0
	shape uint8 // index of what the line can cover whole
	whole bool  // it covers the shape whole
	auth  Auth  // unset where the verdict takes none
}

func (l *line) any() bool { return l.peer < 0 }

// decides reports whether a flow that meets the line goes no further.
func (l *line) decides() bool { return l.rule.Verdict != Pass }

// list is one direction's rules in total order.
type list struct {
	direction Direction
	rules     []*Rule // all, also those that only log
	lines     []line  // those that do more
	lastAuth  int     // index of the last line with an explicit auth, -1
	open      bool    // what nothing matches is allowed
	otherwise Value   // of what nothing matches

	// wildPasses and namedPasses are the tiers in which a line for any peer passes,
	// and one for some.
	wildPasses, namedPasses [tiers]bool

	wild   []int32   // lines for any peer
	named  [][]int32 // lines by peer
	frames []wildFrame
	passed []int32            // frames with a pass
	byPrec map[uint32][]int32 // the others, by the precedence of what decides there
}

// newList sorts and numbers the rules of one direction. peers is the peer of each
// rule. closed: what no rule decides is denied, whatever the rules are.
func newList(d Direction, rules []Rule, peers []int32, o Options) (*list, error) {
	l := &list{direction: d, lastAuth: -1, open: !o.Closed}
	order := inOrder(d, rules)
	l.rules = make([]*Rule, len(order))
	for i, at := range order {
		l.rules[i] = &rules[at]
	}
	precs, err := precedences(d, l.rules, o.levels())
	if err != nil {
		return nil, err
	}
	l.lines = make([]line, 0, len(l.rules))
	for i, r := range l.rules {
		if r.Verdict == Log {
			continue
		}
		n := line{rule: r, prec: precs[i], peer: peers[order[i]], tier: uint8(r.Tier - Admin)}
		if r.Verdict == Allow || r.Verdict == Redirect {
			n.auth = r.Auth
		}
		if n.auth != AuthUnset {
			l.lastAuth = len(l.lines)
		}
		if r.ClosesDefault() {
			l.open = false
		}
		n.shape, n.whole = r.shape()
		l.lines = append(l.lines, n)
	}
	l.otherwise.Verdict = Deny
	if l.open {
		l.otherwise.Verdict = Allow
	}
	return l, nil
}

// byPeer sorts the lines by whom they are for.
func (l *list) byPeer(peers int) {
	l.named = make([][]int32, peers)
	count, all := make([]int32, peers), make([]int32, len(l.lines))
	for i := range l.lines {
		if n := &l.lines[i]; n.any() {
			l.wildPasses[n.tier] = l.wildPasses[n.tier] || !n.decides()
		} else {
			l.namedPasses[n.tier] = l.namedPasses[n.tier] || !n.decides()
			count[n.peer]++
		}
	}
	for peer, n := range count {
		l.named[peer], all = all[:0:n], all[n:]
	}
	l.wild = all[:0]
	for i := range l.lines {
		if n := &l.lines[i]; n.any() {
			l.wild = append(l.wild, int32(i))
		} else {
			l.named[n.peer] = append(l.named[n.peer], int32(i))
		}
	}
}

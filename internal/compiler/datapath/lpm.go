package datapath

import "sort"

// answer is what an entry says, in terms of its list.
type answer struct {
	line int32 // index of the deciding line; none: the default decided
	prec uint32
	auth bool // required
}

// same reports whether both say the same; the precedence is a means to that.
func (a answer) same(b answer) bool { return a.line == b.line && a.auth == b.auth }

// cell is an entry of one identity and direction.
type cell struct {
	key    key
	parent int32 // index of the longest entry that covers this one, -1
	answer
}

// lpm is the entries of one identity and direction, keys ascending. The zero
// value holds none.
type lpm []cell

// at is the index of the longest entry for a port of a protocol, -1 where there
// is none. What covers a key stands before it and is found by way of parents: at
// most one step a bit.
func (t lpm) at(p Protocol, port uint16) int32 {
	bound := newKey(p, port, 0xff)
	lo, hi := 0, len(t)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if t[mid].key <= bound {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	i := int32(lo) - 1
	for i >= 0 && !t[i].key.holds(p, port) {
		i = t[i].parent
	}
	return i
}

// over is the index of the longest entry that covers k, -1 where there is none.
func (t lpm) over(k key) int32 {
	i := int32(sort.Search(len(t), func(i int) bool { return t[i].key > k })) - 1
	for i >= 0 && !t[i].key.covers(k) {
		i = t[i].parent
	}
	return i
}

// choose takes the longest entries of an identity, own, and of any identity,
// anyone: -1 where there is none. The higher precedence wins, then the longer
// prefix, then the identity's own (S6). It returns nil when neither is there.
func choose(own lpm, i int32, anyone lpm, j int32) *cell {
	switch {
	case i < 0 && j < 0:
		return nil
	case i < 0:
		return &anyone[j]
	case j < 0:
		return &own[i]
	}
	a, b := &own[i], &anyone[j]
	if b.prec > a.prec || b.prec == a.prec && b.key.depth() > a.key.depth() {
		return b
	}
	return a
}

package datapath

import (
	"cmp"
	"strings"
)

// Slot is an entry's key with the identity's name in place of its number, which
// other identities' coming and going shifts.
type Slot struct {
	Direction Direction
	Identity  string // empty: any identity
	Protocol  Protocol
	Port      uint16
	Bits      uint8
}

// Compare orders slots by direction, identity, protocol, port and bits.
func (s Slot) Compare(o Slot) int {
	return cmp.Or(
		cmp.Compare(s.Direction, o.Direction),
		strings.Compare(s.Identity, o.Identity),
		cmp.Compare(s.Protocol, o.Protocol),
		cmp.Compare(s.Port, o.Port),
		cmp.Compare(s.Bits, o.Bits),
	)
}

// Assignment is a slot and what it holds.
type Assignment struct {
	Slot
	Value
}

// ChangeSet is the difference of two tables, key for key: setting Adds and
// clearing Deletes makes the newer of the older. All are sorted by slot.
type ChangeSet struct {
	Adds    []Assignment // slots that are new or hold something new
	Deletes []Slot       // slots that are gone
	Old     []Assignment // what the slots of both held before, where they held something
}

// Revert is the change set that undoes c.
func (c ChangeSet) Revert() ChangeSet {
	r := ChangeSet{Adds: c.Old}
	held := make(map[Slot]bool, len(c.Old))
	for _, a := range c.Old {
		held[a.Slot] = true
	}
	for _, a := range c.Adds {
		if held[a.Slot] {
			r.Old = append(r.Old, a)
			continue
		}
		r.Deletes = append(r.Deletes, a.Slot)
		r.Old = append(r.Old, a)
	}
	return r
}

// difference compares two tables.
func difference(old, next *Table) ChangeSet {
	var c ChangeSet
	same := old.program == next.program // then equal identities have equal entries
	for n := range old.lists {
		was, now := old.lists[n], next.lists[n]
		if !same {
			c.compare("", was, old.anyone[n], now, next.anyone[n])
		}
		for i, j := 0, 0; i < len(old.ids) || j < len(next.ids); {
			if same && i < len(old.ids) && j < len(next.ids) && old.ids[i].Identity == next.ids[j].Identity {
				i, j = i+1, j+1
				continue
			}
			switch {
			case j == len(next.ids) || i < len(old.ids) && old.ids[i].Name < next.ids[j].Name:
				c.compare(old.ids[i].Name, was, old.ids[i].entries[n], now, nil)
				i++
			case i == len(old.ids) || old.ids[i].Name > next.ids[j].Name:
				c.compare(next.ids[j].Name, was, nil, now, next.ids[j].entries[n])
				j++
			default:
				c.compare(old.ids[i].Name, was, old.ids[i].entries[n], now, next.ids[j].entries[n])
				i, j = i+1, j+1
			}
		}
	}
	return c
}

// compare notes what became of one identity's entries.
func (c *ChangeSet) compare(identity string, was *list, old lpm, now *list, next lpm) {
	at := func(l *list, x *cell) Slot {
		return Slot{l.direction, identity, x.key.protocol(), x.key.port(), x.key.bits()}
	}
	for len(old) > 0 || len(next) > 0 {
		switch {
		case len(next) == 0 || len(old) > 0 && old[0].key < next[0].key:
			s := at(was, &old[0])
			c.Deletes = append(c.Deletes, s)
			c.Old = append(c.Old, Assignment{s, was.value(old[0].answer)})
			old = old[1:]
		case len(old) == 0 || old[0].key > next[0].key:
			c.Adds = append(c.Adds, Assignment{at(now, &next[0]), now.value(next[0].answer)})
			next = next[1:]
		default:
			before, after := was.value(old[0].answer), now.value(next[0].answer)
			if before != after {
				s := at(now, &next[0])
				c.Adds = append(c.Adds, Assignment{s, after})
				c.Old = append(c.Old, Assignment{s, before})
			}
			old, next = old[1:], next[1:]
		}
	}
}

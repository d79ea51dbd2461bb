package datapath

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// part is the entries of the identities that the same peers hold. All but refs
// never changes.
type part struct {
	entries [directions]lpm
	steps   int // that they take to make
	refs    int // identities of the state's table that have them
	class   class
}

// nobody is the entries of those that no peer holds.
var nobody = &part{}

func (p *part) len() int { return len(p.entries[0]) + len(p.entries[1]) }

// known is an identity of a table and its entries.
type known struct {
	*Identity
	*part
	steps int // that finding its peers takes
}

// stage is what a batch comes to. The state stays as it is until commit.
type stage struct {
	*State
	work  *Work
	next  *Table
	refs  map[*part]int   // how many identities more have it
	fresh map[class]*part // of a new program: all; else those beside the state's
	anew  bool            // the program is new
	made  int             // entries computed for the table, each once
}

// rebuild is for new rules.
func (g *stage) rebuild(old *Table, p *program, gone map[string]bool, come []*Identity) error {
	g.anew = true
	g.begin(&Table{program: p, takes: p.steps}, len(p.anyone[0])+len(p.anyone[1]))
	g.fresh = make(map[class]*part, len(p.blocks))
	for _, k := range old.ids {
		if !k.Block && !gone[k.Name] {
			come = append(come, k.Identity)
		}
	}
	slices.SortFunc(come, byName)
	come = mergedByName(p.identities(), come)
	g.next.ids = make([]*known, 0, len(come))
	if g.made > patience*g.capacity {
		return g.tooMany(true)
	}
	for _, id := range come {
		if err := g.add(id); err != nil {
			return err
		}
	}
	return nil
}

// mergedByName are the identities of two lists by name.
func mergedByName(a, b []*Identity) []*Identity {
	all := make([]*Identity, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if byName(a[0], b[0]) <= 0 {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// merge is for the rules of old, with some identities less and some, by name,
// more.
func (g *stage) merge(old *Table, gone map[string]bool, come []*Identity) error {
	n := len(old.ids) - len(gone) + len(come)
	g.begin(&Table{program: old.program, ids: make([]*known, 0, n), takes: old.takes}, old.made)
	for name := range gone {
		at, _ := old.find(name)
		g.drop(old.ids[at])
	}
	from := 0
	for _, id := range come {
		at, _ := old.find(id.Name)
		from = g.keep(old, from, at, gone)
		if err := g.add(id); err != nil {
			return err
		}
	}
	g.keep(old, from, len(old.ids), gone)
	return nil
}

func (g *stage) begin(t *Table, made int) {
	g.next, g.made, g.fresh = t, made, map[class]*part{}
	for n := range g.sweeps {
		g.sweeps[n].list, g.sweeps[n].work = t.lists[n], g.work
	}
}

// keep appends the identities from..to of old, but those that are gone.
func (g *stage) keep(old *Table, from, to int, gone map[string]bool) int {
	if len(gone) == 0 {
		g.next.ids = append(g.next.ids, old.ids[from:to]...)
		return to
	}
	for _, k := range old.ids[from:to] {
		if !gone[k.Name] {
			g.next.ids = append(g.next.ids, k)
		}
	}
	return to
}

// drop lets go of an identity.
func (g *stage) drop(k *known) {
	g.next.takes -= k.steps
	if k.part == nobody {
		return
	}
	if g.refs[k.part]--; k.refs+g.refs[k.part] == 0 {
		g.next.takes -= k.part.steps
		g.made -= k.len()
	}
}

// add takes up an identity, the next by name.
func (g *stage) add(id *Identity) error {
	k, before := &known{Identity: id, part: nobody}, g.work.Steps()
	var err error
	if g.holding, err = g.next.holding(id, g.holding[:0], g.work); err != nil {
		return err
	}
	k.steps = g.work.Steps() - before
	g.next.takes += k.steps
	if len(g.holding) > 0 {
		if k.part, err = g.part(); err != nil {
			return err
		}
		if k.refs+g.refs[k.part] == 0 {
			g.next.takes += k.part.steps
			g.made += k.len()
		}
		g.refs[k.part]++
	}
	g.next.ids = append(g.next.ids, k)
	switch {
	case g.made > patience*g.capacity:
		return g.tooMany(true)
	case g.next.takes > g.budget:
		return &WorkError{Steps: g.budget}
	}
	return nil
}

// part computes the entries of an identity that g.holding hold, from all rules,
// or finds those of another.
func (g *stage) part() (*part, error) {
	g.key = g.key[:0]
	for _, i := range g.holding {
		g.key = binary.BigEndian.AppendUint32(g.key, uint32(i))
	}
	at := class(sha256.Sum256(g.key))
	if p := g.fresh[at]; p != nil {
		return p, nil
	}
	if p := g.classes[at]; p != nil && !g.anew {
		return p, nil
	}
	p, before := &part{class: at}, g.work.Steps()
	for n := range g.sweeps {
		entries, err := g.sweeps[n].of(g.holding, g.next.anyone[n])
		if err != nil {
			return nil, err
		}
		p.entries[n] = slices.Clone(entries)
	}
	p.steps = g.work.Steps() - before
	g.fresh[at] = p
	return p, nil
}

// commit makes the state that of the next table.
func (g *stage) commit() {
	if g.anew {
		g.classes = g.fresh
	} else {
		maps.Copy(g.classes, g.fresh)
	}
	for p, n := range g.refs {
		if p.refs += n; p.refs == 0 && g.classes[p.class] == p {
			delete(g.classes, p.class)
		}
	}
	g.next.made = g.made
}

func (g *stage) tooMany(more bool) error {
	all, per := g.next.count()
	return &CapacityError{Entries: all, Capacity: g.capacity, Egress: per[0], Ingress: per[1], More: more}
}

func (t *Table) count() (all int, per [directions]int) {
	for n := range per {
		per[n] = len(t.anyone[n])
		for _, k := range t.ids {
			per[n] += len(k.entries[n])
		}
		all += per[n]
	}
	return all, per
}

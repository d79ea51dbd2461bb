//go:build linux

package enforce

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"
)

// replace adds to tx what makes the table hold r and nothing else, whatever it
// held before.
func (r *Ruleset) replace(tx *knftables.Transaction) {
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{Comment: knftables.PtrTo("made by edict agent, and replaced by it")})
	r.change(&Ruleset{}, tx)
}

// change adds to tx what makes a table that holds from hold r. What both have is
// not touched, so that it costs what differs. Chains and maps of classes never
// change: they are named by what they hold.
func (r *Ruleset) change(from *Ruleset, tx *knftables.Transaction) {
	for _, name := range r.counters {
		if !slices.Contains(from.counters, name) {
			tx.Add(&knftables.Counter{Name: name})
		}
	}
	chains, held := r.chainsByName(), from.chainsByName()
	for _, c := range r.chains {
		if held[c.name] == nil {
			tx.Add(c.object())
		}
	}
	vmaps, heldMaps := r.mapsByName(), from.mapsByName()
	for _, m := range r.maps {
		if heldMaps[m.name] == nil {
			tx.Add(m.object())
		}
	}
	for _, c := range from.chains {
		if now := chains[c.name]; now == nil || !slices.Equal(now.rules, c.rules) {
			tx.Flush(&knftables.Chain{Name: c.name})
		}
	}
	for _, c := range r.chains {
		if was := held[c.name]; was == nil || !slices.Equal(was.rules, c.rules) {
			for _, rule := range c.rules {
				tx.Add(&knftables.Rule{Chain: c.name, Rule: rule})
			}
		}
	}
	for _, m := range from.maps {
		if vmaps[m.name] != nil {
			for _, e := range m.without(vmaps[m.name]) {
				tx.Delete(m.elementObject(e))
			}
		}
	}
	for _, m := range r.maps {
		for _, e := range m.without(heldMaps[m.name]) {
			tx.Add(m.elementObject(e))
		}
	}
	for _, m := range from.maps {
		if vmaps[m.name] == nil {
			tx.Delete(&knftables.Map{Name: m.name})
		}
	}
	for _, c := range from.chains {
		if chains[c.name] == nil {
			tx.Delete(&knftables.Chain{Name: c.name})
		}
	}
	for _, name := range from.counters {
		if !slices.Contains(r.counters, name) {
			tx.Delete(&knftables.Counter{Name: name})
		}
	}
}

// slowFrom reports whether nft would take longer over the change of a table that holds from
// than over the whole of r. For each element that is removed it goes through all those of the
// map, some microseconds each: thousands of tens of thousands took it minutes, in which what
// is in force stays.
func (r *Ruleset) slowFrom(from *Ruleset) bool {
	const most = 1 << 20 // a second or two
	steps, vmaps := 0, r.mapsByName()
	for _, m := range from.maps {
		if now := vmaps[m.name]; now != nil {
			steps += len(m.without(now)) * len(m.elements)
		}
	}
	return steps > most
}

func (r *Ruleset) chainsByName() map[string]*chain {
	by := make(map[string]*chain, len(r.chains))
	for _, c := range r.chains {
		by[c.name] = c
	}
	return by
}

func (r *Ruleset) mapsByName() map[string]*vmap {
	by := make(map[string]*vmap, len(r.maps))
	for _, m := range r.maps {
		by[m.name] = m
	}
	return by
}

func (c *chain) object() *knftables.Chain {
	out := &knftables.Chain{Name: c.name}
	if h := c.hook; h != nil {
		out.Type, out.Hook, out.Policy = &h.kind, &h.hook, &h.policy
		out.Priority = knftables.PtrTo(knftables.BaseChainPriority(strconv.Itoa(h.priority)))
	}
	return out
}

func (m *vmap) object() *knftables.Map {
	return &knftables.Map{Name: m.name, Type: m.typ + verdictType, Flags: []knftables.SetFlag{knftables.IntervalFlag}}
}

// elementObject is an element for nft.
func (m *vmap) elementObject(e element) *knftables.Element {
	return &knftables.Element{Map: m.name, Key: strings.Split(e.key, concatenation), Value: []string{e.verdict}}
}

// without are the elements of m that o does not have; of all when o is nil.
func (m *vmap) without(o *vmap) (out []element) {
	if o == nil {
		return m.elements
	}
	there := map[element]bool{}
	for _, e := range o.elements {
		there[e] = true
	}
	for _, e := range m.elements {
		if !there[e] {
			out = append(out, e)
		}
	}
	return out
}

// differences are, in words, where a listing is not the ruleset; none when it is.
func (r *Ruleset) differences(l *Listing) (out []string) {
	said := func(kind string, want, have map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got, there := have[name]; !there {
				out = append(out, kind+" "+name+" is missing")
			} else if got != want[name] {
				out = append(out, kind+" "+name+" is "+got+", not "+want[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(have)) {
			if _, there := want[name]; !there {
				out = append(out, kind+" "+name+" is too many")
			}
		}
	}
	if l.Flagged {
		out = append(out, "the table has flags")
	}
	want := r.listing()
	said("chain", want.Chains, l.Chains)
	said("map", want.Maps, l.Maps)
	said("element", want.Elements, l.Elements)
	for _, name := range r.counters {
		if _, there := l.Counters[name]; !there {
			out = append(out, "counter "+name+" is missing")
		}
	}
	return out
}

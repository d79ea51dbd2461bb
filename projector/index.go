package projector

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/edictdev/edict/policy"
)

// index answers two questions about a project without looking at everything:
// which identities can a selector match, and which selectors can match an
// identity. Both go by terms: a key, or a key with a value.
type index struct {
	pairs map[policy.Label]*bucket // identities with key=value
	keys  map[string]*bucket       // identities with key
	// unindexable are selectors with a side that requires no label at all
	// (only != and !k): every identity must be tried.
	unindexable map[*selector]struct{}
	all         set // every identity of the project
}

// bucket is one term: who has it, and which selectors are filed under it.
type bucket struct {
	identities set
	selectors  map[*selector]struct{}
}

func newIndex() index {
	return index{
		pairs:       map[policy.Label]*bucket{},
		keys:        map[string]*bucket{},
		unindexable: map[*selector]struct{}{},
	}
}

// term is what identities and selectors are filed under. A term of a key alone
// has no value, and any identity with the key is in it.
type term struct {
	label policy.Label
	pair  bool
}

// at returns the term's bucket, nil when nothing is filed under it.
func (x *index) at(t term) *bucket {
	if t.pair {
		return x.pairs[t.label]
	}
	return x.keys[t.label.Key]
}

// open returns the term's bucket, made if need be.
func (x *index) open(t term) *bucket {
	b := x.at(t)
	if b == nil {
		b = &bucket{selectors: map[*selector]struct{}{}}
		if t.pair {
			x.pairs[t.label] = b
		} else {
			x.keys[t.label.Key] = b
		}
	}
	return b
}

// tidy forgets the term when nothing is filed under it any more.
func (x *index) tidy(t term) {
	b := x.at(t)
	if b == nil || b.identities.len() > 0 || len(b.selectors) > 0 {
		return
	}
	if t.pair {
		delete(x.pairs, t.label)
	} else {
		delete(x.keys, t.label.Key)
	}
}

func terms(l policy.Label) [2]term {
	return [2]term{{label: l, pair: true}, {label: policy.Label{Key: l.Key}}}
}

// enter files a new identity under its terms.
func (x *index) enter(i *identity) {
	x.all.add(i.ordinal)
	for _, l := range i.labels {
		for _, t := range terms(l) {
			x.open(t).identities.add(i.ordinal)
		}
	}
}

// leave undoes enter.
func (x *index) leave(i *identity) {
	x.all.remove(i.ordinal)
	for _, l := range i.labels {
		for _, t := range terms(l) {
			x.open(t).identities.remove(i.ordinal)
			x.tidy(t)
		}
	}
}

// rarest returns the rarest term that e requires; ok is false when it requires
// none. Selectors already filed count as well: in a log that brings its
// policies before its nodes, every set of identities is still empty.
func (x *index) rarest(e policy.Expr) (best term, ok bool) {
	least := 0
	for _, c := range e {
		var t term
		switch c.Op {
		case policy.Equal:
			t = term{label: policy.Label{Key: c.Key, Value: c.Values[0]}, pair: true}
		case policy.In, policy.Exists:
			t = term{label: policy.Label{Key: c.Key}}
		default:
			continue
		}
		cost := 0
		if b := x.at(t); b != nil {
			cost = b.identities.len() + len(b.selectors)
		}
		if !ok || cost < least {
			best, least, ok = t, cost, true
		}
	}
	return best, ok
}

// file makes a selector findable by the identities it can match.
func (x *index) file(s *selector) {
	for _, side := range []policy.Expr{s.sel.Source, s.sel.Destination} {
		t, ok := x.rarest(side)
		if !ok {
			x.unindexable[s] = struct{}{}
			continue
		}
		x.open(t).selectors[s] = struct{}{}
		s.filed = append(s.filed, t)
	}
}

// unfile undoes file.
func (x *index) unfile(s *selector) {
	delete(x.unindexable, s)
	for _, t := range s.filed {
		if b := x.at(t); b != nil { // both sides may share a term
			delete(b.selectors, s)
			x.tidy(t)
		}
	}
	s.filed = nil
}

// match returns the identities a selector matches.
func (s *state) match(p *project, sel policy.Selector) set {
	out := s.matchSide(p, sel.Source)
	other := s.matchSide(p, sel.Destination)
	if out.len() < other.len() {
		out, other = other, out
	}
	if other.big != nil {
		both := roaring.New()
		out.addTo(both)
		both.Or(other.big)
		return set{big: both}
	}
	for _, x := range other.small {
		out.add(x)
	}
	return out
}

// matchSide tries the identities that have the rarest required term; a single
// required term needs no trial at all. The set returned is the caller's own.
func (s *state) matchSide(p *project, e policy.Expr) set {
	candidates := &p.index.all
	if t, ok := p.index.rarest(e); ok {
		b := p.index.at(t)
		if b == nil {
			return set{}
		}
		candidates = &b.identities
		if len(e) == 1 && (e[0].Op == policy.Equal || e[0].Op == policy.Exists) {
			return candidates.clone()
		}
	}
	var hits []uint32
	candidates.each(func(i uint32) bool {
		if e.Matches(s.identities[i].labels) {
			hits = append(hits, i)
		}
		return true
	})
	if len(hits) <= smallSet {
		return set{small: hits}
	}
	return set{big: roaring.BitmapOf(hits...)}
}

// matching returns the selectors that match a label set, by ordinal.
func (s *state) matching(p *project, labels policy.Labels) []*selector {
	var out []*selector
	s.mark++
	try := func(sels map[*selector]struct{}) {
		for sel := range sels {
			if sel.mark == s.mark {
				continue
			}
			sel.mark = s.mark
			if sel.sel.Matches(labels) {
				out = append(out, sel)
			}
		}
	}
	try(p.index.unindexable)
	for _, l := range labels {
		if b := p.index.pairs[l]; b != nil {
			try(b.selectors)
		}
		if b := p.index.keys[l.Key]; b != nil {
			try(b.selectors)
		}
	}
	slices.SortFunc(out, func(a, b *selector) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return out
}

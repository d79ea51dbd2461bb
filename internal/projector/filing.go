package projector

import "github.com/edictdev/edict/policy"

// filing is by what one side of a selector is found: a term, or each of the values of
// a key, for a clause that has a list of them. The zero filing is none: the side
// requires no label.
type filing struct {
	term
	values []string
}

// terms are those that a selector is filed under.
func (f *filing) terms(yield func(term) bool) {
	switch {
	case f.values != nil:
		for _, v := range f.values {
			if !yield(term{policy.Label{Key: f.Key, Value: v}, true}) {
				return
			}
		}
	case f.Key != "":
		yield(f.term)
	}
}

// rarest returns the rarest filing of e, the zero one when it requires no label.
// Selectors already filed count as well: in a log that brings its policies before its
// nodes, every set of identities is still empty.
func (x *index) rarest(e policy.Expr) (best filing) {
	least := 0
	for i := range e {
		c := &e[i]
		var f filing
		switch c.Op {
		case policy.Equal:
			f.term = term{policy.Label{Key: c.Key, Value: c.Values[0]}, true}
		case policy.In:
			f = filing{term{Label: policy.Label{Key: c.Key}}, c.Values}
		case policy.Exists:
			f.term = term{Label: policy.Label{Key: c.Key}}
		default:
			continue
		}
		if len(e) == 1 {
			return f
		}
		cost := 0
		for t := range f.terms {
			if b := x.at(t); b != nil {
				cost += b.identities.len() + len(b.selectors)
			}
		}
		if best.Key == "" || cost < least {
			best, least = f, cost
		}
	}
	return best
}

// candidates are the identities that have a filing, in a set of the caller's own.
func (x *index) candidates(f *filing) (may set) {
	for t := range f.terms {
		if b := x.at(t); b != nil {
			may.join(&b.identities)
		}
	}
	return may
}

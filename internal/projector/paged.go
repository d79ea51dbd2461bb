package projector

import "iter"

// pageSize is how many ordinals share a page. A label set that stays keeps the page that it
// is on: some 5 KiB in all three lists of the state.
const pageSize = 256

// paged is a list by ordinal. Ordinals are given once, so it would grow with every label set
// that ever was; but a page on which nothing is left is given back, and what remains of it
// is a pointer. The zero value is an empty list.
type paged[T comparable] struct {
	pages []*page[T]
}

type page[T comparable] struct {
	at   [pageSize]T
	used int // of them; those that are zero are not
}

// at is what an ordinal has: zero where that is nothing.
func (l *paged[T]) at(ordinal uint32) (v T) {
	if n := ordinal / pageSize; int(n) < len(l.pages) && l.pages[n] != nil {
		v = l.pages[n].at[ordinal%pageSize]
	}
	return v
}

// put gives an ordinal what it has: zero for nothing.
func (l *paged[T]) put(ordinal uint32, v T) {
	n := int(ordinal / pageSize)
	if n >= len(l.pages) {
		l.pages = append(l.pages, make([]*page[T], n+1-len(l.pages))...)
	}
	var none T
	p := l.pages[n]
	switch {
	case p == nil && v == none:
		return
	case p == nil:
		p = new(page[T])
		l.pages[n] = p
	}
	was := &p.at[ordinal%pageSize]
	switch {
	case *was == none && v != none:
		p.used++
	case *was != none && v == none:
		if p.used--; p.used == 0 {
			l.pages[n] = nil
		}
	}
	*was = v
}

// all yields what is not zero, in the order of ordinals.
func (l *paged[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		var none T
		for _, p := range l.pages {
			if p == nil {
				continue
			}
			for _, v := range p.at {
				if v != none && !yield(v) {
					return
				}
			}
		}
	}
}

package convergence

import "slices"

// first keeps the first of what it is given, in an order, at most limit, and counts all: a
// whole fleet may lag. Up to twice the limit are kept unsorted, and cut.
type first[T any] struct {
	limit, count int
	compare      func(a, b T) int
	kept         []T // up to limit sorted, if there are as many
}

func newFirst[T any](limit int, compare func(a, b T) int) *first[T] {
	return &first[T]{limit: limit, compare: compare}
}

func (x *first[T]) add(one T) {
	x.count++
	if x.limit <= 0 || len(x.kept) >= x.limit && x.compare(one, x.kept[x.limit-1]) >= 0 {
		return // so many go before it
	}
	if x.kept = append(x.kept, one); len(x.kept) == x.limit || len(x.kept) >= 2*x.limit {
		x.cut()
	}
}

func (x *first[T]) cut() {
	slices.SortFunc(x.kept, x.compare)
	x.kept = x.kept[:min(len(x.kept), x.limit)]
}

// sorted are those that were kept, in their order.
func (x *first[T]) sorted() []T {
	x.cut()
	return x.kept
}

package enforce

// point is a place on a line without gaps: an address, or a port.
type point[T any] interface {
	comparable
	Compare(T) int
	Next() T
	Prev() T
}

// port is a point of 0 to 65535.
type port int

// Compare orders ports.
func (p port) Compare(o port) int { return int(p - o) }

// Next is the port after p.
func (p port) Next() port { return p + 1 }

// Prev is the port before p.
func (p port) Prev() port { return p - 1 }

const lastPort port = 65535

// span is what holds from one point to another, both of them in it.
type span[T point[T], V comparable] struct {
	from, to T
	value    V
}

// flatten lays nested spans out flat: of those that hold a point the narrowest
// counts. Spans must be apart or one inside the other, and sorted by where they
// begin, the wider ones first. What comes out ascends, neighbours differ.
func flatten[T point[T], V comparable](nested []span[T, V]) (flat []span[T, V]) {
	type rest struct {
		span[T, V]
		gone bool // all of it lies under narrower ones
	}
	var open []rest // what is left, behind the current span, of those around it
	emit := func(s span[T, V]) {
		if n := len(flat); n > 0 && flat[n-1].value == s.value && flat[n-1].to.Next() == s.from {
			flat[n-1].to = s.to
			return
		}
		flat = append(flat, s)
	}
	shut := func() {
		last := open[len(open)-1]
		open = open[:len(open)-1]
		if !last.gone {
			emit(last.span)
		}
	}
	for _, s := range nested {
		for len(open) > 0 && open[len(open)-1].to.Compare(s.from) < 0 {
			shut()
		}
		if n := len(open); n > 0 {
			around := &open[n-1]
			if !around.gone && around.from.Compare(s.from) < 0 {
				emit(span[T, V]{around.from, s.from.Prev(), around.value})
			}
			if around.gone = around.to == s.to; !around.gone {
				around.from = s.to.Next()
			}
		}
		open = append(open, rest{span: s})
	}
	for len(open) > 0 {
		shut()
	}
	return flat
}

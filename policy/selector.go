package policy

import (
	"bytes"
	"slices"
)

// Op is the test a Clause makes.
type Op uint8

// The closed set of tests: k=v, k!=v, k in (a,b), k, !k.
const (
	Equal Op = iota
	NotEqual
	In
	Exists
	Absent
)

// Clause is one test of one label key.
type Clause struct {
	Op     Op
	Key    string
	Values []string // one for Equal and NotEqual, one or more (sorted, each once) for In, none otherwise
}

func (c *Clause) holds(l Labels) bool {
	value, ok := l.Get(c.Key)
	switch c.Op {
	case Equal:
		return ok && value == c.Values[0]
	case NotEqual:
		return !ok || value != c.Values[0]
	case In:
		if !ok {
			return false
		}
		_, found := slices.BinarySearch(c.Values, value)
		return found
	case Exists:
		return ok
	case Absent:
		return !ok
	}
	return false
}

func (c Clause) append(b []byte) []byte {
	switch c.Op {
	case Equal:
		b = append(append(append(b, c.Key...), '='), c.Values[0]...)
	case NotEqual:
		b = append(append(append(b, c.Key...), "!="...), c.Values[0]...)
	case In:
		b = append(append(b, c.Key...), " in ("...)
		for i, v := range c.Values {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, v...)
		}
		b = append(b, ')')
	case Exists:
		b = append(b, c.Key...)
	case Absent:
		b = append(append(b, '!'), c.Key...)
	}
	return b
}

// Expr is one side of a selector: clauses that must all hold. Without clauses
// it holds for every node; ParseExpr never returns such a one.
type Expr []Clause

// String prints the expression so that ParseExpr reads it back: the author's
// clause order, spaces only around "in".
func (e Expr) String() string { return string(e.AppendText(nil)) }

// AppendText appends String to b.
func (e Expr) AppendText(b []byte) []byte {
	for i, c := range e {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.append(b)
	}
	return b
}

// Equal reports whether both are the same clauses in the same order.
func (e Expr) Equal(o Expr) bool {
	if len(e) == len(o) && len(e) > 0 && &e[0] == &o[0] {
		return true
	}
	return slices.EqualFunc(e, o, func(a, b Clause) bool {
		return a.Op == b.Op && a.Key == b.Key && slices.Equal(a.Values, b.Values)
	})
}

// Matches reports whether every clause holds for labels.
func (e Expr) Matches(l Labels) bool {
	for i := range e {
		if !e[i].holds(l) {
			return false
		}
	}
	return true
}

// Canonical is a text equal for expressions that make the same tests: clauses
// sorted, each once; a set of one value is an equality. ParseExpr reads it.
func (e Expr) Canonical() string { return string(e.appendKey(nil)) }

// appendKey appends the canonical text of e.
func (e Expr) appendKey(b []byte) []byte {
	if len(e) == 1 {
		return e[0].appendKey(b)
	}
	start := len(b)
	var room [8][2]int
	spans := room[:0] // of the clauses' texts, which are written behind each other first
	for _, c := range e {
		at := len(b)
		b = c.appendKey(b)
		spans = append(spans, [2]int{at, len(b)})
	}
	text := func(s [2]int) []byte { return b[s[0]:s[1]] }
	slices.SortFunc(spans, func(x, y [2]int) int { return bytes.Compare(text(x), text(y)) })
	end := len(b)
	for i, s := range spans {
		switch {
		case i == 0:
		case bytes.Equal(text(s), text(spans[i-1])):
			continue
		default:
			b = append(b, ',')
		}
		b = append(b, b[s[0]:s[1]]...)
	}
	return append(b[:start], b[end:]...)
}

func (c Clause) appendKey(b []byte) []byte {
	if c.Op == In && len(c.Values) == 1 {
		c.Op = Equal
	}
	return c.append(b)
}

// Selector names the nodes that take part in a policy: those whose labels
// satisfy its source side, its destination side, or both (000, stage 2).
type Selector struct {
	Source      Expr
	Destination Expr
}

// Matches reports whether either side is satisfied.
func (s Selector) Matches(l Labels) bool {
	return s.Source.Matches(l) || s.Destination.Matches(l)
}

// Key is a canonical text: equal for selectors that make the same tests,
// whatever the order and spacing they were written in.
func (s Selector) Key() string { return string(s.AppendKey(nil)) }

// AppendKey appends Key to b.
func (s Selector) AppendKey(b []byte) []byte {
	start := len(b)
	b = s.Source.appendKey(b)
	end := len(b)
	b = append(b, ';')
	if s.Source.Equal(s.Destination) {
		return append(b, b[start:end]...)
	}
	return s.Destination.appendKey(b)
}

var selectorFields = []string{"source", "destination"}

func readSelector(r *reader) (s Selector) {
	var seen uint
	ok := r.object("a selector", func(name []byte) bool {
		switch string(name) {
		case "source":
			seen |= 1
			s.Source = readExpr(r)
		case "destination":
			seen |= 2
			if s.Destination = readExpr(r); s.Destination.Equal(s.Source) {
				s.Destination = s.Source // they share memory for as long as they are kept
			}
		default:
			return false
		}
		return true
	}, allOf(selectorFields))
	if ok {
		r.require(3, seen, selectorFields)
	}
	return s
}

func readExpr(r *reader) Expr {
	b, ok := r.text("a selector string")
	if !ok {
		return nil
	}
	e, errs := ParseExpr(string(b))
	for _, err := range errs {
		r.note("", CodeSelectorSyntax, err.Error())
	}
	return e
}

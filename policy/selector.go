package policy

import (
	"slices"
	"strings"
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

// Matches reports whether the test holds for labels. NotEqual and Absent hold
// for a node without the key, as in Kubernetes (design section 3).
func (c Clause) Matches(l Labels) bool {
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
func (e Expr) String() string { return string(e.append(nil)) }

func (e Expr) append(b []byte) []byte {
	for i, c := range e {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.append(b)
	}
	return b
}

// Matches reports whether every clause holds for labels.
func (e Expr) Matches(l Labels) bool {
	for _, c := range e {
		if !c.Matches(l) {
			return false
		}
	}
	return true
}

// Canonical is a text equal for expressions that make the same tests: clauses
// sorted, each once; a set of one value is an equality. ParseExpr reads it.
func (e Expr) Canonical() string {
	texts := make([]string, len(e))
	for i, c := range e {
		if c.Op == In && len(c.Values) == 1 {
			c.Op = Equal
		}
		texts[i] = string(c.append(nil))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

// Selector names the nodes that take part in a policy: those whose labels
// satisfy its source side, its destination side, or both (000, stage 2).
type Selector struct {
	Source      Expr
	Destination Expr
}

// Sides reports which sides of the selector the labels satisfy.
func (s Selector) Sides(l Labels) (source, destination bool) {
	return s.Source.Matches(l), s.Destination.Matches(l)
}

// Matches reports whether either side is satisfied.
func (s Selector) Matches(l Labels) bool {
	return s.Source.Matches(l) || s.Destination.Matches(l)
}

// Key is a canonical text: equal for selectors that make the same tests,
// whatever the order and spacing they were written in.
func (s Selector) Key() string {
	return s.Source.Canonical() + ";" + s.Destination.Canonical()
}

var selectorFields = []string{"source", "destination"}

func (r *reader) selector() (s Selector) {
	var seen uint
	ok := r.object("a selector", func(name []byte) bool {
		switch string(name) {
		case "source":
			seen |= 1
			s.Source = r.expr()
		case "destination":
			seen |= 2
			s.Destination = r.expr()
		default:
			return false
		}
		return true
	})
	if ok {
		r.require(3, seen, selectorFields)
	}
	return s
}

func (r *reader) expr() Expr {
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

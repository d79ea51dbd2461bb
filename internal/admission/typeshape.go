package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// shapes are the types of values that are written out in a policy. Those that are alike are
// one: the elements of a list of a thousand objects with the same keys have one type.
type shapes struct {
	ids map[string]int
	at  map[*ast.Term]shape
}

// shape is the type of a value: those with the same id are the same.
type shape struct{ id, size int }

func newShapes() *shapes { return &shapes{map[string]int{}, map[*ast.Term]shape{}} }

// of is the shape of a value without variables.
func (s *shapes) of(t *ast.Term) shape {
	if known, ok := s.at[t]; ok {
		return known
	}
	var ids []string
	size := 1
	part := func(t *ast.Term) string {
		p := s.of(t)
		size += p.size
		return fmt.Sprint(p.id)
	}
	switch v := t.Value.(type) {
	case *ast.Array:
		v.Foreach(func(e *ast.Term) { ids = append(ids, part(e)) })
	case ast.Set:
		for id, n := range s.distinct(v.Slice()) {
			ids = append(ids, fmt.Sprint(id))
			size += n
		}
		slices.Sort(ids)
	case ast.Object:
		v.Foreach(func(k, e *ast.Term) { ids = append(ids, k.String(), part(k), part(e)) })
	}
	key := ast.ValueName(t.Value) + " " + strings.Join(ids, " ")
	id, known := s.ids[key]
	if !known {
		id = len(s.ids)
		s.ids[key] = id
	}
	s.at[t] = shape{id, size}
	return s.at[t]
}

// distinct are the sizes of the shapes that values have, by id.
func (s *shapes) distinct(values []*ast.Term) map[int]int {
	sizes := map[int]int{}
	for _, t := range values {
		p := s.of(t)
		sizes[p.id] = p.size
	}
	return sizes
}

// union is the size of the type of what may be any of some values.
func (s *shapes) union(values []*ast.Term) int {
	n := 1
	for _, size := range s.distinct(values) {
		n += size
	}
	return n
}

// selected are the parts of values that a path leads to. What is not ground leads to all.
func selected(values []*ast.Term, path ast.Ref) []*ast.Term {
	for _, step := range path {
		var next []*ast.Term
		for _, t := range values {
			switch v := t.Value.(type) {
			case *ast.Array:
				if step.IsGround() {
					if e := v.Get(step); e != nil {
						next = append(next, e)
					}
					continue
				}
				v.Foreach(func(e *ast.Term) { next = append(next, e) })
			case ast.Set:
				next = append(next, v.Slice()...) // of any element the set tells one type
			case ast.Object:
				if step.IsGround() {
					if e := v.Get(step); e != nil {
						next = append(next, e)
					}
					continue
				}
				v.Foreach(func(_, e *ast.Term) { next = append(next, e) })
			}
		}
		values = next
	}
	return values
}

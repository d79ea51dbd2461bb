package rete

import (
	"reflect"
	"strings"
	"sync"
)

// field is one field of a kind. The decoder and the published schema read the
// same ones.
type field struct {
	name     string
	index    int
	required bool
	doc      string
	def      string // the default, as text; empty: none
	typ      reflect.Type
}

// leaf is a scalar with a grammar of its own.
type leaf interface{ set(text string) error }

// closed is a scalar with few values.
type closed interface{ values() []string }

var shapes sync.Map // reflect.Type → []field

// shapeOf lists the fields of a struct.
func shapeOf(t reflect.Type) []field {
	if s, ok := shapes.Load(t); ok {
		return s.([]field)
	}
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("rete"), ",")
		all = append(all, field{name, i, option == "required", f.Tag.Get("doc"), f.Tag.Get("default"), f.Type})
	}
	shapes.Store(t, all)
	return all
}

// leafOf and closedOf see a type through its pointer, as setters need it.
func leafOf(v reflect.Value) (leaf, bool) {
	l, ok := v.Addr().Interface().(leaf)
	return l, ok
}

func closedOf(t reflect.Type) (closed, bool) {
	c, ok := reflect.Zero(t).Interface().(closed)
	return c, ok
}

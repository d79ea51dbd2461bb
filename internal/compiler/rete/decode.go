package rete

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxDepth is how deep a file may nest.
const maxDepth = 64

// decoder reads the YAML tree of one file into the kinds, strictly, and goes on
// after a fault: what could not be read stays zero.
type decoder struct {
	report
	file string
}

func (d *decoder) at(n *yaml.Node) place { return place{d.file, n.Line, n.Column} }

// fault notes a breach of rule 1.
func (d *decoder) fault(n *yaml.Node, name, format string, args ...any) {
	d.add("1", d.at(n), name, format, args...)
}

// refuse notes what no file may have: anchors, aliases, tags, merge keys and
// deep nesting. It says whether the tree is sound.
func (d *decoder) refuse(n *yaml.Node, depth int) {
	switch {
	case depth > maxDepth:
		d.fault(n, "", "nested more than %d deep; nothing in a repository needs that", maxDepth)
		return
	case n.Kind == yaml.AliasNode:
		d.fault(n, "", "alias *%s; write the value out", n.Value)
		return
	case n.Anchor != "":
		d.fault(n, "", "anchor &%s; anchors and aliases are not read, write the value out", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		d.fault(n, "", "tag %s; tags are not read, leave it out", n.Tag)
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == "<<" && c.Style == 0 && c.Kind == yaml.ScalarNode {
			d.fault(c, "", "merge key <<; merge keys are not read, write the fields out")
			continue
		}
		d.refuse(c, depth+1)
	}
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindName is what a node is, in words.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if null(n) {
		return "nothing"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

// key is the text of a mapping's key.
func (d *decoder) key(n *yaml.Node, name string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.fault(n, name, "a key must be text, not %s; quote it if it is meant", kindName(n))
		return "", false
	}
	return n.Value, true
}

// value reads n into v; path is the field within the entry called name.
func (d *decoder) value(n *yaml.Node, v reflect.Value, name, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), name, path)
	case reflect.Slice:
		d.list(n, v, name, path)
	case reflect.Struct:
		if l, ok := leafOf(v); ok {
			d.leaf(n, l, name, path)
			return
		}
		d.object(n, v, name, path)
	case reflect.Uint32:
		d.number(n, v, name, path)
	default:
		d.text(n, v, name, path)
	}
}

func (d *decoder) scalar(n *yaml.Node, name, path string) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value != "" {
		return true
	}
	d.fault(n, name, "%s must be text, not %s; quote it if it is meant", path, kindName(n))
	return false
}

func (d *decoder) leaf(n *yaml.Node, l leaf, name, path string) {
	if !d.scalar(n, name, path) {
		return
	}
	if err := l.set(n.Value); err != nil {
		d.fault(n, name, "%s: %v", path, err)
	}
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, name, path string) {
	if l, ok := leafOf(v); ok {
		d.leaf(n, l, name, path)
		return
	}
	if !d.scalar(n, name, path) {
		return
	}
	if c, ok := closedOf(v.Type()); ok && !slices.Contains(c.values(), n.Value) {
		d.fault(n, name, "%s is %.40q; want one of %s", path, n.Value, strings.Join(c.values(), ", "))
		return
	}
	v.SetString(n.Value)
}

func (d *decoder) number(n *yaml.Node, v reflect.Value, name, path string) {
	i, err := strconv.ParseUint(n.Value, 10, 32)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || i == 0 || i > maxDays {
		d.fault(n, name, "%s must be a whole number from 1 to %d, not %s", path, maxDays, kindName(n))
		return
	}
	v.SetUint(i)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, name, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fault(n, name, "%s must be a list, not %s", path, kindName(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, c := range n.Content {
		d.value(c, v.Index(i), name, path+"["+strconv.Itoa(i)+"]")
	}
}

func (d *decoder) object(n *yaml.Node, v reflect.Value, name, path string) {
	fields := shapeOf(v.Type())
	if n.Kind != yaml.MappingNode {
		if len(fields) == 0 && null(n) {
			return // a mark needs no body
		}
		d.fault(n, name, "%s must be a mapping, not %s", path, kindName(n))
		return
	}
	var seen uint64 // fields are few
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		text, ok := d.key(key, name)
		if !ok {
			continue
		}
		f := slices.IndexFunc(fields, func(f field) bool { return f.name == text })
		if f < 0 {
			d.fault(key, name, "unknown field %q in %s; %s", text, path, known(text, fields))
			continue
		}
		if seen&(1<<f) != 0 {
			d.fault(key, name, "%s is given twice in %s; keep one", text, path)
			continue
		}
		seen |= 1 << f
		d.value(value, v.Field(fields[f].index), name, path+"."+text)
	}
	for i, f := range fields {
		if f.required && seen&(1<<i) == 0 {
			d.fault(n, name, "%s needs %s: %s", path, f.name, f.doc)
		}
	}
}

// known says which fields there are.
func known(text string, fields []field) string {
	if len(fields) == 0 {
		return "it has no fields"
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if near := nearest(text, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "its fields are " + strings.Join(names, ", ")
}

// nearest is the name that a typing mistake away is text.
func nearest(text string, names []string) string {
	for _, name := range names {
		if oneEdit(text, name) || oneEdit(name, text) {
			return name
		}
	}
	return ""
}

// oneEdit says whether long is short with one character more or changed, or two
// neighbours swapped.
func oneEdit(short, long string) bool {
	i := 0
	for i < len(short) && i < len(long) && short[i] == long[i] {
		i++
	}
	switch len(long) - len(short) {
	case 1:
		return short[i:] == long[i+1:]
	case 0:
		return i < len(short) && (short[i+1:] == long[i+1:] ||
			i+1 < len(short) && short[i] == long[i+1] && short[i+1] == long[i] && short[i+2:] == long[i+2:])
	}
	return false
}

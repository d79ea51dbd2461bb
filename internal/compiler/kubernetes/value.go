package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Item is one thing that could not be expressed, or not exactly.
type Item struct {
	Document int    // the document's index
	Pointer  string // a JSON pointer into it
	Reason   string // why, and what was done instead
	// Wider: without it the set may let through what the cluster denies.
	Wider bool
}

// reader collects the items of one document.
type reader struct {
	document int
	items    []Item
}

func (r *reader) note(at, format string, args ...any) {
	r.items = append(r.items, Item{Document: r.document, Pointer: at, Reason: fmt.Sprintf(format, args...)})
}

// lose notes what may make the set wider.
func (r *reader) lose(at, format string, args ...any) {
	r.note(at, format, args...)
	r.widens()
}

// widens says of the item that was noted last that it may make the set wider.
func (r *reader) widens() { r.items[len(r.items)-1].Wider = true }

// value is a part of a document and its place; v is nil where it is absent.
type value struct {
	r  *reader
	at string
	v  any
}

// parse reads a document. A name said twice is an item: which of them counts
// differs between tools.
func parse(r *reader, doc []byte) (value, bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(doc))
	if _, err := dec.ReadValue(); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			r.lose(string(syntax.JSONPointer), "left out: %v", syntax.Err)
		} else {
			r.lose("", "left out: %v", err)
		}
		return value{}, false
	}
	numbers := json.NewDecoder(bytes.NewReader(doc))
	numbers.UseNumber()
	var v any
	if err := numbers.Decode(&v); err != nil {
		r.lose("", "left out: %v", err)
		return value{}, false
	}
	return value{r, "", v}, true
}

func (v value) present() bool { return v.v != nil }

func (v value) note(format string, args ...any) { v.r.note(v.at, format, args...) }

// lose notes what may make the set wider.
func (v value) lose(format string, args ...any) { v.r.lose(v.at, format, args...) }

// wrong notes that v is not what it should be.
func (v value) wrong(want string) { v.note("want %s", want) }

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// named are the members of an object whose names are its author's; a null is one of them.
func (v value) named() (map[string]value, bool) {
	object, ok := v.v.(map[string]any)
	if !ok {
		v.wrong("an object")
		return nil, false
	}
	members := make(map[string]value, len(object))
	for name, m := range object {
		members[name] = value{v.r, v.at + "/" + pointerEscape.Replace(name), m}
	}
	return members, true
}

// loose are the members of an object, of which others may know more. One that is null
// is absent.
func (v value) loose() (map[string]value, bool) {
	members, ok := v.named()
	maps.DeleteFunc(members, func(_ string, m value) bool { return !m.present() })
	return members, ok
}

// members are those of an object that may have the known ones alone, with the
// places of those that are absent. A name that is not known makes it false: what
// it would change is unknown.
func (v value) members(known ...string) (map[string]value, bool) {
	members, ok := v.loose()
	if !ok {
		members = map[string]value{}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) {
			members[name].note("unknown field")
			delete(members, name)
			ok = false
		}
	}
	for _, name := range known {
		if _, there := members[name]; !there {
			members[name] = value{v.r, v.at + "/" + name, nil}
		}
	}
	return members, ok
}

// presentOf counts the members that are present.
func presentOf(members map[string]value) (n int) {
	for _, m := range members {
		if m.present() {
			n++
		}
	}
	return n
}

// elements are those of an array; of what is absent, none.
func (v value) elements() ([]value, bool) {
	if !v.present() {
		return nil, true
	}
	array, ok := v.v.([]any)
	if !ok {
		v.wrong("an array")
		return nil, false
	}
	all := make([]value, len(array))
	for i, e := range array {
		all[i] = value{v.r, v.at + "/" + strconv.Itoa(i), e}
	}
	return all, true
}

func (v value) text() (string, bool) {
	s, ok := v.v.(string)
	if !ok {
		v.wrong("a string")
	}
	return s, ok
}

func (v value) integer(least, most int64) (int64, bool) {
	if n, ok := v.v.(json.Number); ok {
		if i, err := n.Int64(); err == nil && least <= i && i <= most {
			return i, true
		}
	}
	v.wrong(fmt.Sprintf("a whole number from %d to %d", least, most))
	return 0, false
}

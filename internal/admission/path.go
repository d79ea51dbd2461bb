package admission

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// path leads into a payload: keys of objects, or indexes of arrays.
type path []string

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// parsePath reads a JSON pointer (RFC 6901: empty, or it begins with a slash)
// or a dotted path. A key that holds a dot can only be written in a pointer.
func parsePath(s string) (path, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		p := strings.Split(s, ".")
		for _, key := range p {
			if key == "" {
				return nil, fmt.Errorf("%q has an empty part; a key that is empty or holds a dot is written as a JSON pointer, /a/b", s)
			}
		}
		return p, nil
	}
	p := path(strings.Split(s[1:], "/"))
	for i, part := range p {
		key, err := unescape(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		p[i] = key
	}
	return p, nil
}

func unescape(part string) (string, error) {
	if !strings.Contains(part, "~") {
		return part, nil
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '~' {
			b.WriteByte(part[i])
			continue
		}
		i++
		switch {
		case i < len(part) && part[i] == '0':
			b.WriteByte('~')
		case i < len(part) && part[i] == '1':
			b.WriteByte('/')
		default:
			return "", errors.New("in a JSON pointer a ~ is written ~0")
		}
	}
	return b.String(), nil
}

// pointer writes the path as a JSON pointer. Equal paths have equal pointers.
func (p path) pointer() string {
	var b strings.Builder
	for _, key := range p {
		b.WriteByte('/')
		pointerEscapes.WriteString(&b, key) //nolint:errcheck // a Builder does not fail
	}
	return b.String()
}

// String writes the path dotted, or as a pointer where dots would not say it.
func (p path) String() string {
	for i, key := range p {
		if key == "" || strings.Contains(key, ".") || i == 0 && key[0] == '/' {
			return p.pointer()
		}
	}
	return strings.Join(p, ".")
}

// in is the value at the path, if there is one.
func (p path) in(v any) (any, bool) {
	for _, key := range p {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(at) || strconv.Itoa(i) != key {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// touchedBy says whether a merge patch sets or removes the value at the path,
// something above it or something below it.
func (p path) touchedBy(patch map[string]any) bool {
	var v any = patch
	for _, key := range p {
		object, ok := v.(map[string]any)
		if !ok {
			return true // the patch replaces what is above
		}
		if v, ok = object[key]; !ok {
			return false
		}
	}
	return len(p) > 0 || len(patch) > 0
}

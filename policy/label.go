package policy

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// Label is one key and its value.
type Label struct{ Key, Value string }

// Labels is a set of labels, sorted by key, each key once.
type Labels []Label

// Limits of a node's labels.
const (
	MaxLabels      = 64
	MaxLabelValue  = 256 // bytes
	MaxLabelPrefix = 253 // bytes of a key before its '/'
	MaxLabelName   = 63  // bytes of a key after it
)

// NewLabels checks and sorts labels. The error is Violations with pointers
// below base (base/key), keys ascending.
func NewLabels(m map[string]string, base string) (Labels, error) {
	var faults Violations
	labels := make(Labels, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pointer := base + "/" + escapePointer(k)
		if _, why := labelKeyFault(k); why != "" {
			faults = append(faults, Violation{pointer, CodeInvalidLabelKey, why})
		}
		if _, why := labelValueFault(m[k]); why != "" {
			faults = append(faults, Violation{pointer, CodeInvalidLabelValue, why})
		}
		labels = append(labels, Label{k, m[k]})
	}
	if len(m) > MaxLabels {
		faults = append(faults, Violation{base, CodeTooManyLabels, tooMany("labels", len(m), MaxLabels)})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if len(labels) == 0 {
		return nil, nil
	}
	return labels, nil
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// Get returns the value of key.
func (l Labels) Get(key string) (value string, ok bool) {
	const few = 8 // are as quickly compared one by one
	if len(l) > few {
		i := sort.Search(len(l), func(i int) bool { return l[i].Key >= key })
		l = l[i:min(i+1, len(l))]
	}
	for i := range l {
		if l[i].Key == key {
			return l[i].Value, true
		}
	}
	return "", false
}

// Map is the set as a map of its own.
func (l Labels) Map() map[string]string {
	m := make(map[string]string, len(l))
	for _, x := range l {
		m[x.Key] = x.Value
	}
	return m
}

// Equal reports whether both are the same set.
func (l Labels) Equal(o Labels) bool { return slices.Equal(l, o) }

// Key is a text equal exactly for equal label sets: "k=v,k=v". Neither
// separator can occur in a checked key or value.
func (l Labels) Key() string { return string(l.AppendKey(nil)) }

// AppendKey appends Key to b.
func (l Labels) AppendKey(b []byte) []byte {
	for i, x := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, x.Key...)
		b = append(b, '=')
		b = append(b, x.Value...)
	}
	return b
}

// labelKeyFault says what is wrong with a label key, and at which byte. The
// grammar is Kubernetes' (name, or prefix/name), with ':' allowed between the
// parts of the prefix.
func labelKeyFault[T ~string | ~[]byte](key T) (at int, why string) {
	name := 0
	for i := range len(key) {
		if key[i] == '/' {
			if at, why := prefixFault(key[:i]); why != "" {
				return at, why
			}
			name = i + 1
			break
		}
	}
	switch n := len(key) - name; {
	case n == 0:
		return name, "a label key needs a name"
	case n > MaxLabelName:
		return name + MaxLabelName, fmt.Sprintf("the name of a label key has at most %d bytes", MaxLabelName)
	}
	if at, why := wordFault(key[name:]); why != "" {
		return name + at, "the name of a label key " + why
	}
	return 0, ""
}

// prefixFault checks DNS labels in lower case joined by '.' or ':'.
func prefixFault[T ~string | ~[]byte](prefix T) (at int, why string) {
	if len(prefix) > MaxLabelPrefix {
		return MaxLabelPrefix, fmt.Sprintf("the prefix of a label key has at most %d bytes", MaxLabelPrefix)
	}
	edge := true // the next byte must be a letter or digit
	for i := range len(prefix) {
		c := prefix[i]
		switch {
		case isLower(c):
			edge = false
		case c == '-' && !edge:
		case (c == '.' || c == ':') && !edge && prefix[i-1] != '-':
			edge = true
		default:
			return i, "the prefix of a label key is DNS labels in lower case, joined by '.' or ':'"
		}
	}
	if edge || prefix[len(prefix)-1] == '-' {
		return len(prefix), "the prefix of a label key ends in a letter or digit"
	}
	return 0, ""
}

// labelValueFault says what is wrong with a label value, and at which byte.
func labelValueFault[T ~string | ~[]byte](value T) (at int, why string) {
	if len(value) > MaxLabelValue {
		return MaxLabelValue, fmt.Sprintf("a label value has at most %d bytes", MaxLabelValue)
	}
	if at, why = wordFault(value); why != "" {
		why = "a label value " + why
	}
	return at, why
}

// wordFault checks letters, digits, '-', '_' and '.', the outer ones letters or
// digits. Nothing at all is a word.
func wordFault[T ~string | ~[]byte](s T) (at int, why string) {
	last := len(s) - 1
	for i := range len(s) {
		c := s[i]
		switch {
		case isAlphanumeric(c):
		case c != '-' && c != '_' && c != '.':
			return i, "has only letters, digits, '-', '_' and '.'"
		case i == 0 || i == last:
			return i, "begins and ends with a letter or digit"
		}
	}
	return 0, ""
}

// pair is a label in the reader's arena: key arena[at:key], value arena[key:end].
type pair struct{ at, key, end int }

// readLabels reads an object of label keys and values. The set's text is one
// allocation, whatever its size.
func readLabels(r *reader) Labels {
	r.arena, r.pairs = r.arena[:0], r.pairs[:0]
	n := 0
	ok := r.object("an object of labels", func(name []byte) bool {
		n++
		at := len(r.arena)
		r.arena = append(r.arena, name...)
		key := len(r.arena)
		value, ok := r.text("a string")
		if !ok {
			return true
		}
		if _, why := labelKeyFault(r.arena[at:key]); why != "" {
			r.note("", CodeInvalidLabelKey, why)
		}
		if _, why := labelValueFault(value); why != "" {
			r.note("", CodeInvalidLabelValue, why)
		}
		if n > MaxLabels { // judged, not kept
			r.arena = r.arena[:at]
			return true
		}
		r.arena = append(r.arena, value...)
		r.pairs = append(r.pairs, pair{at, key, len(r.arena)})
		return true
	})
	if ok && n > MaxLabels {
		r.note("", CodeTooManyLabels, tooMany("labels", n, MaxLabels))
	}
	if len(r.pairs) == 0 {
		return nil
	}
	slices.SortFunc(r.pairs, func(a, b pair) int {
		return bytes.Compare(r.arena[a.at:a.key], r.arena[b.at:b.key])
	})
	text, labels := string(r.arena), make(Labels, len(r.pairs))
	for i, p := range r.pairs {
		labels[i] = Label{text[p.at:p.key], text[p.key:p.end]}
	}
	return labels
}

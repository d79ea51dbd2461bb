package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

// ParsePayload decodes a JSON object and keeps numbers as they are written.
func ParsePayload(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var payload map[string]any
	if err := d.Decode(&payload); err != nil {
		return nil, &RequestError{Message: err.Error()}
	}
	if payload == nil {
		return nil, &RequestError{Message: "is null, not an object"}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &RequestError{Message: "goes on after the object"}
	}
	return payload, nil
}

// ServiceTypeOf is the service_type of a payload, if that is a string.
func ServiceTypeOf(payload map[string]any) (string, bool) {
	s, ok := payload[ServiceTypeLabel].(string)
	return s, ok
}

// LabelsOf are those metadata.labels of a payload that are strings.
func LabelsOf(payload map[string]any) map[string]string {
	labels := map[string]string{}
	metadata, _ := payload["metadata"].(map[string]any)
	given, _ := metadata["labels"].(map[string]any)
	for k, v := range given {
		if s, ok := v.(string); ok {
			labels[k] = s
		}
	}
	return labels
}

// NewRequest is a request whose payload says what it is: its service type, which
// may be absent, and its labels. The error is a [*RequestError]: one of them is of
// another type, so that the request would pass by the policies that it is for.
func NewRequest(payload map[string]any, user, tenant string) (Request, error) {
	wrong := func(pointer string, v any, want string) (Request, error) {
		return Request{}, &RequestError{Pointer: pointer, Message: "is " + kindOf(v) + ", not " + want, WrongType: true}
	}
	service, ok := ServiceTypeOf(payload)
	if v, given := payload[ServiceTypeLabel]; given && !ok {
		return wrong("/"+ServiceTypeLabel, v, "a string")
	}
	metadata, ok := payload["metadata"].(map[string]any)
	if v := payload["metadata"]; v != nil && !ok {
		return wrong("/metadata", v, "an object")
	}
	labels, ok := metadata["labels"].(map[string]any)
	if v := metadata["labels"]; v != nil && !ok {
		return wrong("/metadata/labels", v, "an object")
	}
	for _, k := range sortedKeys(labels) {
		if _, ok := labels[k].(string); !ok {
			return wrong(path{"metadata", "labels", k}.pointer(), labels[k], "a string")
		}
	}
	return Request{ServiceType: service, Labels: LabelsOf(payload), Payload: payload, UserID: user, TenantID: tenant}, nil
}

// meter measures values as they are walked, and stops at its limits.
type meter struct {
	bytes int // left; roughly what the value takes as JSON
	depth int // left
}

var (
	errTooLarge = errors.New("is too large")
	errTooDeep  = errors.New("is nested too deep")
	errUTF8     = errors.New("has a text that is not UTF-8, such as what base64.decode may give; JSON has none")
	errNumber   = fmt.Errorf("is a number of more than %d digits or outside 1e±%d", maxDigits, maxExponent)
)

func (m *meter) take(n int) error {
	if m.bytes -= n; m.bytes < 0 {
		return errTooLarge
	}
	return nil
}

// located is an error at a JSON pointer below where it was found.
type located struct {
	path path
	err  error
}

func (l *located) Error() string { return l.err.Error() }

func below(key string, err error) error {
	l, ok := err.(*located)
	if !ok {
		l = &located{err: err}
	}
	l.path = slices.Insert(l.path, 0, key)
	return l
}

// json checks that v is a JSON value within the limits.
func (m *meter) json(v any) error {
	m.depth--
	defer func() { m.depth++ }()
	if m.depth < 0 {
		return errTooDeep
	}
	switch v := v.(type) {
	case nil, bool:
		return m.take(5)
	case string:
		return m.take(len(v) + 3)
	case json.Number:
		if !isSane(string(v)) {
			return errNumber
		}
		return m.take(len(v) + 1)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errNumber
		}
		return m.take(8)
	case []any:
		for i, e := range v {
			if err := m.json(e); err != nil {
				return below(strconv.Itoa(i), err)
			}
		}
		return m.take(2)
	case map[string]any:
		for k, e := range v {
			if err := m.take(len(k) + 4); err != nil {
				return err
			}
			if err := m.json(e); err != nil {
				return below(k, err)
			}
		}
		return m.take(2)
	}
	return fmt.Errorf("is of type %T, which is not JSON", v)
}

// fromRego converts what a policy answered. A value that the policy holds once
// may stand in it a million times, so it is measured on the way.
func (m *meter) fromRego(v ast.Value) (any, error) {
	m.depth--
	defer func() { m.depth++ }()
	if m.depth < 0 {
		return nil, errTooDeep
	}
	switch v := v.(type) {
	case ast.Null:
		return nil, m.take(5)
	case ast.Boolean:
		return bool(v), m.take(5)
	case ast.String:
		// Whoever writes it as JSON writes something else: what was judged would not be
		// what comes out.
		if !utf8.ValidString(string(v)) {
			return nil, errUTF8
		}
		return string(v), m.take(len(v) + 3)
	case ast.Number:
		if !isSane(string(v)) {
			return nil, errNumber
		}
		return json.Number(v), m.take(len(v) + 1)
	case *ast.Array:
		return m.list(v.Len(), v.Elem)
	case ast.Set:
		sorted := v.Slice()
		return m.list(len(sorted), func(i int) *ast.Term { return sorted[i] })
	case ast.Object:
		return m.object(v)
	}
	return nil, fmt.Errorf("is %s, which is not JSON", ast.ValueName(v))
}

func (m *meter) list(n int, elem func(int) *ast.Term) (any, error) {
	if err := m.take(n + 2); err != nil {
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		var err error
		if list[i], err = m.fromRego(elem(i).Value); err != nil {
			return nil, below(strconv.Itoa(i), err)
		}
	}
	return list, nil
}

func (m *meter) object(o ast.Object) (any, error) {
	if err := m.take(4*o.Len() + 2); err != nil {
		return nil, err
	}
	object := make(map[string]any, o.Len())
	err := o.Iter(func(k, v *ast.Term) error {
		key, ok := k.Value.(ast.String)
		if !ok {
			return fmt.Errorf("has the key %v, which is no string", k)
		}
		if !utf8.ValidString(string(key)) {
			return errUTF8 // two such keys may be written as one
		}
		if err := m.take(len(key)); err != nil {
			return err
		}
		e, err := m.fromRego(v.Value)
		if err != nil {
			return below(string(key), err)
		}
		object[string(key)] = e
		return nil
	})
	return object, err
}

// A number beyond these is refused wherever it enters: comparing 1e1000000000
// with anything takes all memory there is.
const (
	maxDigits   = 400
	maxExponent = 400
)

func isSane(number string) bool {
	if len(number) > maxDigits || !json.Valid([]byte(number)) {
		return false
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(strings.TrimPrefix(number[i+1:], "+"))
	return err == nil && exponent >= -maxExponent && exponent <= maxExponent
}

// rational is the value of a number.
func rational(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(string(v))
	case float64:
		r := new(big.Rat).SetFloat64(v)
		return r, r != nil
	}
	return nil, false
}

// equal compares JSON values, numbers by what they are worth: 4 is 4.0.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number, float64:
		if a == b {
			return true
		}
		x, ok := rational(a)
		y, also := rational(b)
		return ok && also && x.Cmp(y) == 0
	}
	switch b.(type) {
	case map[string]any, []any: // not comparable by ==
		return false
	}
	return a == b
}

// merge applies a merge patch (RFC 7396) and leaves its arguments as they are;
// the result shares parts with both.
func merge(target any, patch map[string]any) map[string]any {
	old, _ := target.(map[string]any)
	merged := make(map[string]any, len(old)+len(patch))
	for k, v := range old {
		merged[k] = v
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(merged, k)
		case map[string]any:
			merged[k] = merge(merged[k], v)
		default:
			merged[k] = v
		}
	}
	return merged
}

// changes are what leads from one object to another, as a JSON patch, by path.
func changes(at path, from, to map[string]any) []Change {
	var list []Change
	keys := map[string]bool{}
	for k := range from {
		keys[k] = true
	}
	for k := range to {
		keys[k] = true
	}
	for _, k := range sortedKeys(keys) {
		here := append(slices.Clip(at), k)
		old, had := from[k]
		now, has := to[k]
		a, isObject := old.(map[string]any)
		b, stays := now.(map[string]any)
		switch {
		case !has:
			list = append(list, Change{Op: "remove", Path: here.pointer(), From: old})
		case !had:
			list = append(list, Change{Op: "add", Path: here.pointer(), Value: now})
		case isObject && stays:
			list = append(list, changes(here, a, b)...)
		case !equal(old, now):
			list = append(list, Change{Op: "replace", Path: here.pointer(), From: old, Value: now})
		}
	}
	return list
}

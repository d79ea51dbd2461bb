package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// decision is what a policy answered, in the words of neither dialect.
type decision struct {
	reject      bool
	reason      string
	patch       map[string]any
	constraints map[string]any // path → schema, both as written
	provider    string
	allow       []string
	patterns    []string
	size        int // roughly as JSON
}

// fieldError is a field of a decision that is not what it must be.
type fieldError struct {
	field   string
	message string
}

func (e *fieldError) Error() string { return e.field + ": " + e.message }

// parse reads a decision and takes nothing that it does not know: what is
// misspelt would else be a permission.
func (d *dialect) parse(answer map[string]any) (*decision, error) {
	r := reader{object: answer, taken: make([]string, 0, 6)}
	dec := &decision{
		reject:      take[bool](&r, d.reject, "true or false"),
		reason:      take[string](&r, d.reason, "a string"),
		patch:       take[map[string]any](&r, "patch", "an object"),
		constraints: take[map[string]any](&r, "constraints", "an object"),
	}
	if d.nested {
		provider := r.inner(d.provider)
		dec.provider = take[string](provider, "value", "a string")
		d.restrict(dec, provider.inner("constraints"))
		provider.end()
	} else {
		dec.provider = take[string](&r, d.provider, "a string")
		d.restrict(dec, r.inner(d.restriction))
	}
	r.end()
	if r.err != nil {
		return nil, r.err
	}
	return dec, nil
}

func (d *dialect) restrict(dec *decision, r *reader) {
	dec.allow = r.strings("allow_list")
	dec.patterns = r.strings("patterns")
	if dec.allow != nil && len(dec.allow) == 0 {
		if !d.emptyMeansAny {
			r.fail("allow_list", "is empty, so that no provider could be chosen; leave it out to allow any, reject to allow none")
		}
		dec.allow = nil
	}
	r.end()
}

// reader takes the fields of an object one by one and remembers the first
// fault. A nested reader hands its fault to the one above.
type reader struct {
	object map[string]any
	taken  []string
	prefix string
	err    error
	above  *reader
}

func (r *reader) fail(field, format string, args ...any) {
	top := r
	for top.above != nil {
		top = top.above
	}
	if top.err == nil {
		top.err = &fieldError{r.prefix + field, fmt.Sprintf(format, args...)}
	}
}

func take[T any](r *reader, field, what string) T {
	r.taken = append(r.taken, field)
	var zero T
	v, ok := r.object[field]
	if !ok {
		return zero
	}
	t, ok := v.(T)
	if !ok {
		r.fail(field, "is %s, not %s", kindOf(v), what)
	}
	return t
}

func (r *reader) inner(field string) *reader {
	return &reader{object: take[map[string]any](r, field, "an object"), prefix: r.prefix + field + ".", above: r}
}

func (r *reader) strings(field string) []string {
	list := take[[]any](r, field, "an array")
	if list == nil {
		return nil
	}
	texts := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			r.fail(fmt.Sprintf("%s[%d]", field, i), "is %s, not a string", kindOf(v))
		}
		texts[i] = s
	}
	return texts
}

// end refuses what nobody took.
func (r *reader) end() {
	left := len(r.object)
	for _, field := range r.taken {
		if _, there := r.object[field]; there {
			left--
		}
	}
	if left == 0 {
		return
	}
	for _, field := range sortedKeys(r.object) {
		if !slices.Contains(r.taken, field) {
			r.fail(field, "is no field of a decision; there are %s", strings.Join(r.taken, ", "))
		}
	}
}

// kindOf names the JSON type of a value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

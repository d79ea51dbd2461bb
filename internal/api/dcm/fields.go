package dcm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
)

// The limits of the surface, stricter than those of the log.
const (
	minPriority = 1
	maxPriority = 1000
)

// fields are a body of the surface: members that are absent or null are
// nil. Members it does not know are ignored.
type fields struct {
	Path, ID    *string
	DisplayName *string            `json:"display_name"`
	Description *string            `json:"description"`
	PolicyType  *string            `json:"policy_type"`
	Labels      *map[string]string `json:"label_selector"`
	Priority    *json.Number       `json:"priority"`
	RegoCode    *string            `json:"rego_code"`
	Enabled     *bool              `json:"enabled"`
	CreateTime  *string            `json:"create_time"`
	UpdateTime  *string            `json:"update_time"`
	cleared     map[string]bool    // members that are null, by their folded names
}

func readFields(body []byte) (f fields, err error) {
	members, err := decodeOne(body, &f)
	if err != nil {
		return f, err
	}
	f.cleared = map[string]bool{}
	for name, raw := range members {
		f.cleared[name] = isNull(raw)
	}
	if bytes.HasPrefix(members[folded("priority")], []byte(`"`)) {
		return f, wrongType("priority: want a number, found a string")
	}
	return f, checkLabels(members[folded("label_selector")])
}

// checkLabels refuses null for a label: it would be taken for the empty text, and the policy
// then match hardly any request.
func checkLabels(selector json.RawMessage) error {
	var labels map[string]json.RawMessage
	if len(selector) == 0 {
		return nil
	}
	if err := json.Unmarshal(selector, &labels); err != nil {
		return wrongType("label_selector: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if isNull(labels[name]) {
			return wrongType("label_selector.%.80s: want a string, found null; label_selector replaces all labels, so leave out those that are to go", name)
		}
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func duplicate(format string, args ...any) error {
	return resource.NewProblem(http.StatusBadRequest, policy.CodeDuplicateKey, format, args...)
}

// apply sets in d what the fields give.
func (f fields) apply(d *policy.AdmissionPolicy) error {
	if f.DisplayName != nil {
		d.Name = *f.DisplayName
	}
	if f.Description != nil || f.cleared[folded("description")] {
		d.Description = deref(f.Description)
	}
	if f.Labels != nil || f.cleared[folded("label_selector")] {
		d.ServiceType, d.Labels = "", deref(f.Labels) // the service type is one of the labels here
	}
	if f.RegoCode != nil {
		d.Rego = *f.RegoCode
	}
	if f.Enabled != nil {
		d.Disabled = !*f.Enabled
	}
	if f.Priority != nil {
		n, err := f.Priority.Int64()
		if err != nil || n < minPriority || n > maxPriority {
			return invalid("priority is a whole number from %d to %d, not %s", minPriority, maxPriority, *f.Priority)
		}
		d.Priority = int32(n)
	}
	switch {
	case strings.TrimSpace(d.Name) == "":
		return invalid("display_name is required")
	case strings.TrimSpace(d.Rego) == "":
		return invalid("rego_code is required")
	}
	// What the log demands is the same for every surface.
	if _, err := policy.DecodeAdmissionPolicy(policy.AppendAdmissionPolicy(nil, *d)); err != nil {
		return err
	}
	return nil
}

func deref[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

// unchanged refuses other values for what never changes.
func (f fields) unchanged(was resource.AlphaPolicy) error {
	for _, same := range [...]struct {
		field string
		given *string
		is    any
	}{
		{"path", f.Path, was.Path},
		{"id", f.ID, was.ID},
		{"policy_type", f.PolicyType, was.PolicyType},
		{"create_time", f.CreateTime, was.CreateTime},
		{"update_time", f.UpdateTime, was.UpdateTime},
	} {
		if same.given == nil {
			continue
		}
		is, _ := json.Marshal(same.is) // of a string or a time
		if string(is) != `"`+*same.given+`"` {
			return invalid("%s is %s and never changes", same.field, is)
		}
	}
	return nil
}

// decodeOne reads one document, an object, and sees that nothing follows it. Members is what it
// says, by folded names.
func decodeOne(body []byte, v any) (members map[string]json.RawMessage, err error) {
	text := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	document, err := text.ReadValue()
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, duplicate("the body names a member twice: %v", err)
	case errors.Is(err, io.EOF):
		return nil, unreadable("it is empty")
	case err != nil:
		return nil, unreadable("%v", err)
	case document.Kind() != '{':
		return nil, wrongType("the body must be a JSON object")
	}
	document = document.Clone()
	if _, err := text.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, unreadable("something follows the document")
	}
	if members, err = membersOf(document); err != nil {
		return nil, err
	}
	err = json.Unmarshal(document, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return members, nil
	case errors.As(err, &wrong):
		return nil, wrongType("%s: want %s, found %s", wrong.Field, named(wrong.Type), wrong.Value)
	}
	return nil, unreadable("%v", err)
}

func unreadable(format string, args ...any) error {
	return resource.NewProblem(http.StatusBadRequest, policy.CodeMalformedJSON, "the body cannot be read: "+format, args...)
}

// membersOf are the members of an object by their folded names, none of them twice: they are
// taken in any case, so it would not be known which is meant.
func membersOf(object []byte) (map[string]json.RawMessage, error) {
	var written map[string]json.RawMessage
	if err := json.Unmarshal(object, &written); err != nil {
		return nil, wrongType("the body must be a JSON object")
	}
	members, meant := make(map[string]json.RawMessage, len(written)), map[string]string{}
	for name, raw := range written {
		known := folded(name)
		if other, twice := meant[known]; twice {
			return nil, duplicate("%s and %s are the same member", min(name, other), max(name, other))
		}
		meant[known], members[known] = name, raw
	}
	return members, nil
}

// folded is what encoding/json compares of a name: letters stand for all that differ from them
// in case alone, so that ſ is an s.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next // the least of them
			}
			r = next
		}
	}, name)
}

// named is what a client calls a type.
func named(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.Number]():
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "a string"
	}
	return "an object"
}

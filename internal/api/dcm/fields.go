package dcm

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

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
	cleared     map[string]bool    // members that are null
}

func readFields(body []byte) (f fields, err error) {
	if err := decodeOne(body, &f); err != nil {
		return f, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return f, wrongType("the body must be a JSON object")
	}
	f.cleared = map[string]bool{}
	meant := map[string]string{}
	for name, raw := range members {
		f.cleared[name] = string(bytes.TrimSpace(raw)) == "null"
		known := strings.ToLower(name)
		if other, twice := meant[known]; twice {
			return f, duplicate("%s and %s are the same member", min(name, other), max(name, other))
		}
		meant[known] = name
		if known == "priority" && bytes.HasPrefix(raw, []byte(`"`)) {
			return f, wrongType("priority: want a number, found a string")
		}
	}
	return f, nil
}

func duplicate(format string, args ...any) error {
	return resource.NewProblem(http.StatusBadRequest, policy.CodeDuplicateKey, format, args...)
}

// apply sets in d what the fields give.
func (f fields) apply(d *policy.AdmissionPolicy) error {
	if f.DisplayName != nil {
		d.Name = *f.DisplayName
	}
	if f.Description != nil || f.cleared["description"] {
		d.Description = deref(f.Description)
	}
	if f.Labels != nil || f.cleared["label_selector"] {
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

// decodeOne reads one document, which names no member twice, and sees that nothing
// follows it.
func decodeOne(body []byte, v any) error {
	text := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	if _, err := text.ReadValue(); errors.Is(err, jsontext.ErrDuplicateName) {
		return duplicate("the body names a member twice: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("something follows the document")
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return wrongType("%s: want %s, found %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return resource.NewProblem(http.StatusBadRequest, policy.CodeMalformedJSON, "the body cannot be read: %v", err)
}

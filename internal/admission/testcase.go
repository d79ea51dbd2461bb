package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// testCase is a test as policies carry it.
type testCase struct {
	Name    string `json:"name"`
	Request struct {
		Payload map[string]any `json:"request_payload"`
		UserID  string         `json:"user_id"`
		Tenant  string         `json:"tenant_id"`
	} `json:"request"`
	Expect struct {
		Status   string         `json:"status"`
		Payload  map[string]any `json:"request_payload"`
		Provider string         `json:"service_provider"`
		Reason   string         `json:"reason"`
	} `json:"expect"`
}

// statuses are what a test may expect, in any case.
var statuses = []string{
	string(Approved), string(Modified),
	string(OutcomeRejected), string(OutcomeConflict), string(OutcomeError), string(OutcomeTimeout),
}

// TestFault is a test case that cannot be read.
type TestFault struct {
	Index   int // from 0
	Message string
}

// TestFaults are all test cases of a policy that cannot be read.
type TestFaults []TestFault

func (f TestFaults) Error() string {
	lines := make([]string, len(f))
	for i, t := range f {
		lines[i] = fmt.Sprintf("test case %d: %s", t.Index, t.Message)
	}
	return strings.Join(lines, "; ")
}

// ParseTests reads the test cases of a policy, each {"name", "request":
// {"request_payload", "user_id", "tenant_id"}, "expect": {"status",
// "reason", "request_payload", "service_provider"}}. The error is [TestFaults].
func ParseTests(cases []jsontext.Value) ([]Test, error) {
	tests := make([]Test, 0, len(cases))
	var faults TestFaults
	for i, text := range cases {
		t, err := parseTest(text)
		if err != nil {
			faults = append(faults, TestFault{i, err.Error()})
			continue
		}
		t.Name = cmp.Or(t.Name, fmt.Sprintf("test case %d", i))
		tests = append(tests, t)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return tests, nil
}

// misshapen says in the words of JSON, not of Go, what a test case has in the place of something else.
func misshapen(e *json.UnmarshalTypeError) error {
	// The decoder adds to a number which one it is.
	found, _, _ := strings.Cut(e.Value, " ")
	switch found {
	case "bool":
		found = "a boolean"
	case "object", "array":
		found = "an " + found
	default:
		found = "a " + found
	}
	want := "an object"
	if e.Type.Kind() == reflect.String {
		want = "a string"
	}
	return fmt.Errorf("%s is %s, not %s", cmp.Or(strings.TrimPrefix(e.Field, "."), "it"), found, want)
}

func parseTest(text jsontext.Value) (Test, error) {
	var c testCase
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	err := d.Decode(&c)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return Test{}, misshapen(wrong)
	case err != nil:
		return Test{}, err
	}
	known := slices.IndexFunc(statuses, func(s string) bool { return strings.EqualFold(s, c.Expect.Status) })
	if known < 0 {
		return Test{}, fmt.Errorf("expect.status %q: want one of %s", c.Expect.Status, strings.Join(statuses, ", "))
	}
	if c.Request.Payload == nil {
		c.Request.Payload = map[string]any{}
	}
	service, _ := ServiceTypeOf(c.Request.Payload)
	return Test{
		Name: c.Name, Status: statuses[known], Payload: c.Expect.Payload, Provider: c.Expect.Provider, Reason: c.Expect.Reason,
		Request: Request{
			ServiceType: service, Labels: LabelsOf(c.Request.Payload), Payload: c.Request.Payload,
			UserID: c.Request.UserID, TenantID: c.Request.Tenant,
		},
	}, nil
}

package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// ParseTests reads the test cases of a policy, each {"name", "request":
// {"request_payload", "user_id", "tenant_id"}, "expect": {"status",
// "reason", "request_payload", "service_provider"}}. The error names the first that
// cannot be read.
func ParseTests(cases []jsontext.Value) ([]Test, error) {
	tests := make([]Test, 0, len(cases))
	for i, text := range cases {
		var c testCase
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("test case %d: %w", i, err)
		}
		known := slices.IndexFunc(statuses, func(s string) bool { return strings.EqualFold(s, c.Expect.Status) })
		if known < 0 {
			return nil, fmt.Errorf("test case %d: status %q: want one of %s", i, c.Expect.Status, strings.Join(statuses, ", "))
		}
		if c.Name == "" {
			c.Name = fmt.Sprintf("test case %d", i)
		}
		service, _ := ServiceTypeOf(c.Request.Payload)
		if c.Request.Payload == nil {
			c.Request.Payload = map[string]any{}
		}
		tests = append(tests, Test{
			Name: c.Name, Status: statuses[known], Payload: c.Expect.Payload, Provider: c.Expect.Provider, Reason: c.Expect.Reason,
			Request: Request{
				ServiceType: service, Labels: LabelsOf(c.Request.Payload), Payload: c.Request.Payload,
				UserID: c.Request.UserID, TenantID: c.Request.Tenant,
			},
		})
	}
	return tests, nil
}

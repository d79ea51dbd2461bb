package admission

import (
	"bytes"
	"context"
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
	} `json:"expect"`
}

// statuses are what a test may expect, in any case.
var statuses = []string{
	string(Approved), string(Modified),
	string(OutcomeRejected), string(OutcomeConflict), string(OutcomeError), string(OutcomeTimeout),
}

// ParseTests reads the test cases of a policy, each {"name", "request":
// {"request_payload", "user_id", "tenant_id"}, "expect": {"status",
// "request_payload", "service_provider"}}. The error names the first that
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
		service, _ := ServiceTypeOf(c.Request.Payload)
		if c.Request.Payload == nil {
			c.Request.Payload = map[string]any{}
		}
		tests = append(tests, Test{
			Name: c.Name, Status: statuses[known], Payload: c.Expect.Payload, Provider: c.Expect.Provider,
			Request: Request{
				ServiceType: service, Labels: LabelsOf(c.Request.Payload), Payload: c.Request.Payload,
				UserID: c.Request.UserID, TenantID: c.Request.Tenant,
			},
		})
	}
	return tests, nil
}

// TestFailure is a test that gave something else than it must.
type TestFailure struct {
	Test   string `json:"test"`
	Detail string `json:"detail"`
}

// Test runs a policy's tests and returns those that fail. The policy is alone
// in its chain, enforced, and meets every request, whatever it selects.
func (e *Engine) Test(ctx context.Context, p Policy, tests []Test) ([]TestFailure, error) {
	if len(tests) == 0 {
		return nil, nil
	}
	p.Enabled, p.Mode, p.ServiceType, p.LabelSelector = true, Enforce, "", nil
	p.Level, p.TenantID, p.UserID = Global, "", ""
	c, err := Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	s := NewSnapshot(0, c)
	var failures []TestFailure
	for i, t := range tests {
		r, err := e.Evaluate(ctx, s, t.Request, Options{})
		if ctx.Err() != nil {
			return failures, ctx.Err()
		}
		if detail := t.missed(r, err); detail != "" {
			if t.Name == "" {
				t.Name = fmt.Sprintf("test case %d", i)
			}
			failures = append(failures, TestFailure{t.Name, detail})
		}
	}
	return failures, nil
}

// missed says how a result differs from what the test expects; empty when it
// does not.
func (t Test) missed(r Result, err error) string {
	got := OutcomeOf(r, err)
	if !strings.EqualFold(got, t.Status) {
		if err != nil {
			return fmt.Sprintf("status is %s, not %s: %v", got, t.Status, err)
		}
		return fmt.Sprintf("status is %s, not %s", r.Status, t.Status)
	}
	if t.Payload != nil && !equal(r.Payload, t.Payload) {
		return fmt.Sprintf("the payload is %s, not %s", brief(r.Payload), brief(t.Payload))
	}
	if t.Provider != "" && r.ServiceProvider.Value != t.Provider {
		return fmt.Sprintf("the provider is %q, not %q", r.ServiceProvider.Value, t.Provider)
	}
	return ""
}

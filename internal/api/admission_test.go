package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

const (
	admissions = "/api/v1/policies"
	evaluating = "/api/v1/engine/evaluate"
	alphas     = "/api/v1alpha1/policies"
	alphaEval  = "/api/v1alpha1/policies:evaluateRequest"
)

// body is a JSON object of name and value, name and value.
func body(t testing.TB, kv ...any) string {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return string(b)
}

// specified is Rego in the specification's dialect.
func specified(result string) string { return "package dcm.policy.x\n\nresult := " + result + "\n" }

// inherited is Rego in the existing clients' dialect.
func inherited(main string) string { return "package guard\n\nmain := " + main + "\n" }

func admissionDraft(t testing.TB, name, level string, priority int, rego string, kv ...any) string {
	return body(t, append([]any{"name", name, "policy_type", level, "priority", priority, "rego_code", rego}, kv...)...)
}

func (p *plane) admit(t testing.TB, draft string) string {
	t.Helper()
	a := p.do("POST", admissions, draft)
	require.Equal(t, 201, a.StatusCode, "%s", a.body)
	var made resource.AdmissionID
	a.decode(t, &made)
	require.Equal(t, admissions+"/"+made.ID, a.Header.Get("Location"))
	return made.ID
}

func (a answer) decode(t testing.TB, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, v), "%s", a.body)
}

func TestAnAdmissionPolicyLives(t *testing.T) {
	p := newPlane(t)
	id := p.admit(t, admissionDraft(t, "No cpu", "tenant", 10, specified(`{"reject": true, "reason": "no cpu"}`), "tenant_id", "acme", "service_type", "vm"))
	request := body(t, "request_payload", map[string]any{"service_type": "vm"}, "tenant_id", "acme", "user_id", "ana")

	a := p.do("POST", evaluating, request)
	p.want(403, "rejected_by_policy", a)
	require.Contains(t, a.problem(t).Detail, "no cpu")
	require.Equal(t, &resource.Deciding{ID: id, Name: "No cpu"}, a.problem(t).Policy)
	p.want(200, "", p.do("POST", evaluating, strings.Replace(request, "acme", "other", 1)))

	a = p.do("GET", admissions+"/"+id, "")
	var shown resource.AdmissionPolicy
	a.decode(t, &shown)
	require.Equal(t, "Tenant", shown.PolicyType)
	require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(shown.Version)), a.Header.Get("ETag"))

	change := body(t, "priority", 20, "rego_code", specified(`{"patch": {"cpu": 2}}`))
	p.want(412, "precondition_failed", p.do("PUT", admissions+"/"+id, change, `If-Match: "77"`))
	a = p.do("PUT", admissions+"/"+id, change, "If-Match: "+a.Header.Get("ETag"))
	p.want(200, "", a)
	shown = resource.AdmissionPolicy{}
	a.decode(t, &shown)
	require.Equal(t, []any{20, "", "No cpu", "acme"}, []any{shown.Priority, shown.ServiceType, shown.Name, shown.TenantID})
	a = p.do("POST", evaluating, request)
	var admitted resource.Admitted
	a.decode(t, &admitted)
	require.JSONEq(t, `{"service_type":"vm","cpu":2}`, string(admitted.RequestPayload))
	require.Equal(t, "MODIFIED", admitted.Status)

	n := p.log.Len()
	p.want(200, "", p.do("PUT", admissions+"/"+id, change))
	require.Equal(t, n, p.log.Len(), "no change writes nothing")

	p.want(204, "", p.do("DELETE", admissions+"/"+id, ""))
	p.want(404, "policy_not_found", p.do("GET", admissions+"/"+id, ""))
	p.want(404, "policy_not_found", p.do("DELETE", admissions+"/"+id, ""))
	p.do("POST", evaluating, request).decode(t, &admitted)
	require.Equal(t, "APPROVED", admitted.Status, "the very next request sees it gone")
	p.admit(t, admissionDraft(t, "No cpu", "Tenant", 20, specified(`{}`), "tenant_id", "acme"))
}

func TestAdmissionPoliciesAreListedAndFiltered(t *testing.T) {
	p := newPlane(t)
	for i, level := range []string{"Global", "Global", "Tenant", "User"} {
		p.admit(t, admissionDraft(t, fmt.Sprint("n", i), level, i, specified("{}")))
	}
	var page resource.Page[resource.AdmissionPolicy]
	p.do("GET", admissions+"?policy_type=global", "").decode(t, &page)
	require.Len(t, page.Items, 2)
	p.do("GET", admissions+"?limit=3", "").decode(t, &page)
	require.Len(t, page.Items, 3)
	require.NotNil(t, page.NextCursor)
	p.do("GET", admissions+"?limit=3&cursor="+*page.NextCursor, "").decode(t, &page)
	require.Len(t, page.Items, 1)
	require.Nil(t, page.NextCursor)
	p.do("GET", admissions+"?name=n2", "").decode(t, &page)
	require.Len(t, page.Items, 1)
	p.want(422, "unknown_level", p.do("GET", admissions+"?policy_type=root", ""))
	p.want(400, "bad_cursor", p.do("GET", admissions+"?cursor=%21", ""))
}

func TestARetryOfAnAdmissionPolicyIsTheSameWrite(t *testing.T) {
	p := newPlane(t)
	d := admissionDraft(t, "n", "Global", 1, specified("{}"))
	first := p.do("POST", admissions, d, "Idempotency-Key: k")
	p.want(201, "", first)
	p.log.Forget()
	again := p.do("POST", admissions, d, "Idempotency-Key: k")
	p.want(201, "", again)
	require.Equal(t, string(first.body), string(again.body))
}

// TestBadAdmissionPoliciesWriteNothing is the table, for both surfaces.
func TestBadAdmissionPoliciesWriteNothing(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "taken", "Global", 1, specified("{}")))
	n := p.log.Len()
	for _, c := range []struct {
		name, draft string
		status      int
		code        string
		says        string // in the problem
	}{
		{"malformed JSON", `{"name":`, 400, "malformed_json", ""},
		{"an unknown field", admissionDraft(t, "n", "Global", 2, specified("{}"), "rego", ""), 400, "unknown_field", "/rego"},
		{"a wrong type", admissionDraft(t, "n", "Global", 2, specified("{}"), "enabled", "yes"), 400, "wrong_type", "/enabled"},
		{"nothing", `{}`, 422, "required", "/rego_code"},
		{"an unknown level", admissionDraft(t, "n", "Root", 2, specified("{}")), 422, "unknown_level", "Global, Tenant or User"},
		{"an owner of a Global policy", admissionDraft(t, "n", "Global", 2, specified("{}"), "tenant_id", "acme"), 422, "owner_forbidden", "/tenant_id"},
		{"a negative priority", admissionDraft(t, "n", "Global", -1, specified("{}")), 422, "invalid_priority", ""},
		{"v0 syntax", admissionDraft(t, "n", "Global", 2, "package a\n\nallow { input.x }\n"), 400, "invalid_rego", "3:"},
		{"a type error", admissionDraft(t, "n", "Global", 2, "package a\n\nmain := {\"a\": 1 + \"b\"}\n"), 400, "invalid_rego", "rego_type_error"},
		{"recursion", admissionDraft(t, "n", "Global", 2, "package a\n\nf(x) := f(x)\n\nmain := f(1)\n"), 400, "invalid_rego", "rego_recursion_error"},
		{"http.send", admissionDraft(t, "n", "Global", 2, specified(`{"patch": http.send({"method":"get","url":"http://127.0.0.1"})}`)), 400, "invalid_rego", "3:"},
		{"another policy's data", admissionDraft(t, "n", "Global", 2, specified(`{"reject": data.other.deny}`)), 400, "invalid_rego", "outside"},
		{"no code at all", admissionDraft(t, "n", "Global", 2, " "), 422, "required", "/rego_code"},
		{"too much code", admissionDraft(t, "n", "Global", 2, specified("{}")+strings.Repeat("# x\n", 20_000)), 400, "invalid_rego", "too_large"},
		{"a duplicate name", admissionDraft(t, "taken", "Global", 2, specified("{}")), 409, "name_taken", ""},
		{"a duplicate priority", admissionDraft(t, "n", "Global", 1, specified("{}")), 409, "priority_taken", ""},
		{"a test that fails", admissionDraft(t, "n", "Global", 2, specified("{}"), "test_cases", []any{
			map[string]any{"name": "must reject", "request": map[string]any{"request_payload": map[string]any{}}, "expect": map[string]any{"status": "rejected"}},
		}), 422, "tests_failed", "must reject"},
		{"a test that is none", admissionDraft(t, "n", "Global", 2, specified("{}"), "test_cases", []any{map[string]any{"expects": 1}}), 422, "invalid_test_cases", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := p.do("POST", admissions, c.draft)
			p.want(c.status, c.code, a)
			require.Contains(t, string(a.body), c.says)
			require.Equal(t, n, p.log.Len(), "nothing is written")
		})
	}
	p.want(413, "body_too_large", p.do("POST", admissions, admissionDraft(t, "n", "Global", 2, strings.Repeat("x", 2<<20))))
	p.want(422, "immutable_field", p.do("PUT", admissions+"/"+p.only(t), admissionDraft(t, "other", "Global", 1, specified("{}"))))
	require.Equal(t, n, p.log.Len())
}

// only is the id of the only policy there is.
func (p *plane) only(t testing.TB) string {
	var page resource.Page[resource.AdmissionPolicy]
	p.do("GET", admissions, "").decode(t, &page)
	require.Len(t, page.Items, 1)
	return page.Items[0].ID
}

func TestADryRunWritesNothing(t *testing.T) {
	p := newPlane(t)
	d := admissionDraft(t, "n", "Global", 1, specified("{}"))
	a := p.do("POST", admissions+"?dry_run", d)
	p.want(200, "", a)
	require.Zero(t, p.log.Len())
	id := p.admit(t, d)
	p.want(409, "name_taken", p.do("POST", admissions+"?dry_run", d))
	p.want(200, "", p.do("PUT", admissions+"/"+id+"?dry_run=true", body(t, "priority", 2, "rego_code", specified("{}"))))
	p.want(400, "invalid_rego", p.do("PUT", admissions+"/"+id+"?dry_run=true", body(t, "rego_code", "package")))
	require.Equal(t, 1, p.log.Len())
}

func TestAConflictPointsIntoTheBody(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "lock", "Global", 1, specified(`{"constraints": {"a.b": {"const": 1}}, "service_provider": {"constraints": {"allow_list": ["aws"]}}}`)))
	p.admit(t, admissionDraft(t, "u", "User", 1, specified(`{"patch": {"a": null}}`), "service_type", "vm"))
	p.admit(t, admissionDraft(t, "v", "User", 2, specified(`{"service_provider": {"value": "gcp"}}`), "service_type", "db"))
	pointer := func(path, body string) string { return p.do("POST", path, body).problem(t).Errors[0].Pointer }
	require.Equal(t, "/request_payload/a/b", pointer(evaluating, `{"request_payload":{"service_type":"vm","a":{"b":1}}}`))
	require.Equal(t, "/request_payload/a/b", pointer(evaluating, `{"request_payload":{"service_type":"other","a":{"b":2}}}`))
	require.Equal(t, "/request_payload", pointer(evaluating, `{"request_payload":{"service_type":"db"}}`), "of the provider")
	var fault resource.AlphaError
	p.do("POST", alphaEval, `{"service_instance":{"spec":{"service_type":"vm","a":{"b":1}}}}`).decode(t, &fault)
	require.Contains(t, fault.Title, "conflicts on field 'a.b'")
}

func TestBadRequestsOfAnEvaluation(t *testing.T) {
	p := newPlane(t)
	good := p.admit(t, admissionDraft(t, "lock", "Global", 1, specified(`{"patch": {"region": {"name": "eu"}}, "constraints": {"region.name": {"const": "eu"}}}`), "service_type", "locked"))
	for i, c := range []struct {
		name, rego, request, code, says string
		status                          int
	}{
		{"malformed JSON", "", `{`, "malformed_json", "", 400},
		{"duplicate keys", "", `{"request_payload":{},"request_payload":{}}`, "duplicate_key", "", 400},
		{"an unknown field", "", `{"request_payload":{},"x":1}`, "unknown_field", "", 400},
		{"no payload", "", `{}`, "required", "/request_payload", 422},
		{"a payload that is no object", "", `{"request_payload":[1]}`, "wrong_type", "/request_payload", 400},
		{"a decision that is not an object", specified(`7`), "", "policy_failed", "invalid_decision", 500},
		{"a field of the wrong type", specified(`{"reject": "yes"}`), "", "policy_failed", "reject", 500},
		{"a constraint that is no schema", specified(`{"constraints": {"a": {"type": 7}}}`), "", "policy_failed", "invalid_constraint", 500},
		{"two values at once", "package dcm.policy.x\n\nresult := {\"a\": 1} if true\n\nresult := {\"b\": 1} if true\n", "", "policy_failed", "eval_conflict_error", 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			service, id := fmt.Sprint("s", i), ""
			if c.rego != "" {
				id = p.admit(t, admissionDraft(t, service, "User", i, c.rego, "service_type", service))
				c.request = body(t, "request_payload", map[string]any{"service_type": service})
			}
			a := p.do("POST", evaluating, c.request)
			p.want(c.status, c.code, a)
			require.Contains(t, string(a.body), c.says)
			if id != "" {
				require.Equal(t, id, a.problem(t).Policy.ID)
			}
		})
	}
	p.admit(t, admissionDraft(t, "unlock", "User", 99, specified(`{"patch": {"region": null}}`), "service_type", "locked"))
	a := p.do("POST", evaluating+"?explain=full", `{"request_payload":{"service_type":"locked"}}`)
	p.want(409, "policy_conflict_error", a)
	pr := a.problem(t)
	require.Equal(t, "Policy Conflict Error", pr.Title)
	require.Contains(t, string(a.body), good, "blame names who set the constraint")
	require.NotNil(t, pr.Explain)
	require.Len(t, pr.Explain.Steps, 6, "every policy has a step")
	p.want(400, "wrong_type", p.do("POST", evaluating+"?explain=some", `{"request_payload":{}}`))
}

// raw appends the Global policy "raw" for a service type, as a producer that asks
// nobody can.
func (p *plane) raw(t testing.TB, service, rego string) {
	t.Helper()
	e := policy.AdmissionPolicyUpdated{ID: [16]byte{1}, Policy: "raw", Document: policy.AdmissionPolicy{
		Name: "raw", Level: policy.Global, ServiceType: service, Mode: policy.Enforce, Rego: rego,
	}}
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	p.log.store("edict.log.admission.raw", policy.Append(nil, e))
}

func TestAPolicyThatDoesNotCompileFailsWhatItMatches(t *testing.T) {
	p := newPlane(t)
	p.raw(t, "vm", "package a\n\nallow { true }\n")
	a := p.do("POST", evaluating, `{"request_payload":{"service_type":"vm"}}`)
	p.want(500, "policy_failed", a)
	require.Equal(t, "raw", a.problem(t).Policy.ID)
	require.Contains(t, a.problem(t).Detail, "3:")
	p.want(200, "", p.do("POST", evaluating, `{"request_payload":{"service_type":"other"}}`))
}

func TestAShadowPolicyDecidesNothing(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "n", "Global", 1, specified(`{"reject": true}`), "mode", "shadow"))
	a := p.do("POST", evaluating+"?explain=full", `{"request_payload":{}}`)
	p.want(200, "", a)
	require.Contains(t, string(a.body), `"outcome":"rejected"`)
}

func alphaDraft(t testing.TB, name string, priority int, rego string, kv ...any) string {
	return body(t, append([]any{"display_name", name, "policy_type", "GLOBAL", "priority", priority, "rego_code", rego}, kv...)...)
}

// fault reads an error of the v1alpha1 surface.
func (a answer) fault(t testing.TB, status int, kind string) resource.AlphaError {
	t.Helper()
	require.Equal(t, status, a.StatusCode, "%s", a.body)
	var f resource.AlphaError
	a.decode(t, &f)
	require.Equal(t, kind, f.Type)
	require.Equal(t, status, f.Status)
	require.Contains(t, a.Header.Get("Content-Type"), "json")
	return f
}

func TestExistingClientsManagePolicies(t *testing.T) {
	p := newPlane(t)
	a := p.do("POST", alphas+"?id=my-policy", alphaDraft(t, "Größe", 1000, "package test\n\nallow = true\n", "id", "ignored"))
	require.Equal(t, 201, a.StatusCode, "%s", a.body)
	var made, now resource.AlphaPolicy
	a.decode(t, &made)
	require.Equal(t, []any{"policies/my-policy", "my-policy", "Größe", 1000, true}, []any{made.Path, made.ID, made.DisplayName, made.Priority, made.Enabled})
	require.NotContains(t, string(a.body), "description")

	a = p.do("POST", alphas, body(t, "display_name", "d", "policy_type", "USER", "rego_code", "package test\n\nallow = true\n"))
	require.Equal(t, 201, a.StatusCode, "packages may be shared: %s", a.body)
	a.decode(t, &now)
	require.Equal(t, 500, now.Priority)
	require.Len(t, now.ID, 36)

	patch := func(b string) answer {
		return p.do("PATCH", alphas+"/my-policy", b, "Content-Type: application/merge-patch+json")
	}
	a = patch(`{"description":"x","label_selector":{"service_type":"vm"},"priority":1,"enabled":false,"id":"my-policy","policy_type":"GLOBAL"}`)
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	a.decode(t, &now)
	require.Equal(t, []any{"x", map[string]string{"service_type": "vm"}, 1, false, "Größe"}, []any{now.Description, now.LabelSelector, now.Priority, now.Enabled, now.DisplayName})
	require.Equal(t, made.CreateTime, now.CreateTime)
	require.NotEqual(t, made.UpdateTime, now.UpdateTime)
	require.Equal(t, 200, p.do("PATCH", alphas+"/my-policy", `{"enabled":true}`).StatusCode, "plain JSON is taken, too")
	a = patch(`{"description":null,"label_selector":{}}`)
	a.decode(t, &now)
	require.NotContains(t, string(a.body), "label_selector")
	require.NotContains(t, string(a.body), "description")

	patch(`{"policy_type":"USER"}`).fault(t, 400, "INVALID_ARGUMENT")
	patch(`{"rego_code":" "}`).fault(t, 400, "INVALID_ARGUMENT")
	f := patch(`{"rego_code":"package x\nallow { true }"}`).fault(t, 400, "INVALID_ARGUMENT")
	require.Contains(t, f.Detail, "2:")
	p.do("GET", alphas+"/my-policy", "").decode(t, &now)
	require.Equal(t, "package test\n\nallow = true\n", now.RegoCode, "the code stays in force")

	f = p.do("POST", alphas, alphaDraft(t, "Größe", 2, "package a\n")).fault(t, 409, "ALREADY_EXISTS")
	require.Contains(t, f.Detail, "display name")
	require.Contains(t, f.Detail, "policy type")
	f = p.do("POST", alphas, alphaDraft(t, "other", 1, "package a\n")).fault(t, 409, "ALREADY_EXISTS")
	require.Contains(t, f.Detail, "priority")
	p.do("POST", alphas+"?id=my-policy", alphaDraft(t, "o", 3, "package a\n")).fault(t, 409, "ALREADY_EXISTS")
	require.Equal(t, 405, p.do("PUT", alphas+"/my-policy", `{}`).StatusCode)
	// Not as described, but taken: members that nobody knows.
	a = serve(t, api.New(p.deps), "PATCH", alphas+"/my-policy", `{"extra":1,"priority":7}`)
	require.Equal(t, 200, a.StatusCode, "%s", a.body)

	require.Equal(t, 204, p.do("DELETE", alphas+"/my-policy", "").StatusCode)
	for _, method := range []string{"GET", "DELETE"} {
		p.do(method, alphas+"/my-policy", "").fault(t, 404, "NOT_FOUND")
	}
	patch(`{"priority":2}`).fault(t, 404, "NOT_FOUND")
	require.Equal(t, 201, p.do("POST", alphas+"?id=my-policy", alphaDraft(t, "Größe", 1, "package a\n")).StatusCode, "all of it is free at once")
	a = p.do("GET", "/api/v1alpha1/health", "")
	require.JSONEq(t, `{"status":"ok","path":"health"}`, string(a.body))
	require.Equal(t, 405, p.do("GET", alphaEval, "").StatusCode)
}

func TestWhatExistingClientsAreRefused(t *testing.T) {
	p := newPlane(t)
	for name, b := range map[string]string{
		"malformed JSON":      `{"display_name":`,
		"an array":            `[]`,
		"no name":             body(t, "policy_type", "GLOBAL", "rego_code", "package a"),
		"a blank name":        alphaDraft(t, " ", 1, "package a"),
		"no level":            body(t, "display_name", "n", "rego_code", "package a"),
		"a level of v1":       body(t, "display_name", "n", "policy_type", "TENANT", "rego_code", "package a"),
		"no code":             body(t, "display_name", "n", "policy_type", "GLOBAL"),
		"v0 syntax":           alphaDraft(t, "n", 1, "package a\n\nallow { true }"),
		"a type error":        alphaDraft(t, "n", 1, "package a\n\nmain := 1 + \"b\""),
		"priority 0":          alphaDraft(t, "n", 0, "package a"),
		"priority 1001":       alphaDraft(t, "n", 1001, "package a"),
		"half a priority":     alphaDraft(t, "n", 1, "package a", "priority", 1.5),
		"a number for a name": alphaDraft(t, "n", 1, "package a", "display_name", 1),
		"a long name":         alphaDraft(t, strings.Repeat("n", 256), 1, "package a"),
	} {
		t.Run(name, func(t *testing.T) { p.do("POST", alphas, b).fault(t, 400, "INVALID_ARGUMENT") })
	}
	p.do("POST", alphas+"?id=-a", alphaDraft(t, "n", 1, "package a")).fault(t, 400, "INVALID_ARGUMENT")
	for _, query := range []string{
		"filter=policy_type%3D'TENANT'", "filter=name%3D1", "filter=enabled%3Dtrue+OR+enabled%3Dfalse", "max_page_size=0", "max_page_size=1001",
		"max_page_size=x", "page_token=nope", "order_by=rego_code", "order_by=priority+up", "order_by=priority+asc+x", "order_by=,",
	} {
		p.do("GET", alphas+"?"+query, "").fault(t, 400, "INVALID_ARGUMENT")
	}
	require.Zero(t, p.log.Len())
}

func TestExistingClientsListPolicies(t *testing.T) {
	p := newPlane(t)
	for i, name := range []string{"b", "A", "c"} {
		require.Equal(t, 201, p.do("POST", alphas+"?id="+strings.ToLower(name), alphaDraft(t, name, 10-i, "package a", "enabled", i != 0)).StatusCode)
	}
	require.Equal(t, 201, p.do("POST", alphas+"?id=u", alphaDraft(t, "u", 1, "package a", "policy_type", "USER")).StatusCode)
	p.admit(t, admissionDraft(t, "t", "Tenant", 1, "package a"))
	list := func(query string) (ids []string, next string) {
		t.Helper()
		var page resource.AlphaPolicies
		a := p.do("GET", alphas+"?"+query, "")
		require.Equal(t, 200, a.StatusCode, "%s", a.body)
		a.decode(t, &page)
		for _, x := range page.Policies {
			require.NotEmpty(t, x.RegoCode)
			ids = append(ids, x.ID)
		}
		return ids, page.NextPageToken
	}
	for query, want := range map[string][]string{
		"":                                    {"c", "a", "b", "u"},
		"order_by=display_name":               {"a", "b", "c", "u"},
		"order_by=display_name+desc":          {"u", "c", "b", "a"},
		"order_by=create_time":                {"b", "a", "c", "u"},
		"order_by=priority,display_name+desc": {"u", "c", "a", "b"},
		"filter=policy_type+%3D+'USER'":       {"u"},
		"filter=policy_type%3D'GLOBAL'+AND+enabled%3Dfalse": {"b"},
		"filter=enabled+%3D+true&max_page_size=1000":        {"c", "a", "u"},
	} {
		ids, next := list(query)
		require.Equal(t, want, ids, query)
		require.Empty(t, next)
	}
	first, token := list("max_page_size=2")
	require.Equal(t, []string{"c", "a"}, first)
	require.Equal(t, 204, p.do("DELETE", alphas+"/a", "").StatusCode, "what the token stands on goes")
	rest, next := list("page_token=" + url.QueryEscape(token))
	require.Equal(t, []string{"b", "u"}, rest, "a page token needs no max_page_size")
	require.Empty(t, next)
}

func TestExistingClientsEvaluate(t *testing.T) {
	p := newPlane(t)
	eval := func(spec string) answer { return p.do("POST", alphaEval, `{"service_instance":{"spec":`+spec+`}}`) }
	a := eval(`{"service_type":""}`)
	require.JSONEq(t, `{"evaluated_service_instance":{"spec":{"service_type":""}},"selected_provider":"","status":"APPROVED"}`, string(a.body))
	make := func(id string, priority int, rego string, kv ...any) {
		t.Helper()
		a := p.do("POST", alphas+"?id="+id, alphaDraft(t, id, priority, rego, append([]any{"label_selector", map[string]string{"service_type": id[:2]}}, kv...)...))
		require.Equal(t, 201, a.StatusCode, "%s", a.body)
	}
	make("vm-a", 1, inherited(`{"patch": {"cpu": 2}, "selected_provider": "aws", "constraints": {"cpu": {"maximum": 4}}}`))
	var out resource.AlphaAdmitted
	eval(`{"service_type":"vm","ram":1}`).decode(t, &out)
	require.Equal(t, []any{"MODIFIED", "aws"}, []any{out.Status, out.SelectedProvider})
	require.JSONEq(t, `{"service_type":"vm","ram":1,"cpu":2}`, string(out.EvaluatedServiceInstance.Spec))
	make("vm-b", 2, inherited(`{"constraints": {"cpu": {"maximum": 8}}}`))
	f := eval(`{"service_type":"vm"}`).fault(t, 409, "about:blank")
	require.Contains(t, f.Title, "vm-b")
	require.Contains(t, f.Title, "cpu")
	require.NotEmpty(t, f.Detail)
	make("no-a", 3, inherited(`{"rejected": true, "rejection_reason": "not today"}`))
	f = eval(`{"service_type":"no"}`).fault(t, 406, "about:blank")
	require.Equal(t, []string{"Request rejected by policy 'no-a'", "not today"}, []string{f.Title, f.Detail})
	require.Equal(t, 406, eval(`{"service_type":"no","metadata":{"labels":{"service_type":"zz"}}}`).StatusCode, "a label does not hide the service type")
	make("xx-a", 4, inherited(`"text"`))
	eval(`{"service_type":"xx"}`).fault(t, 500, "about:blank")
	f = eval(`{}`).fault(t, 400, "about:blank")
	require.Equal(t, []string{"Bad Request", "service type is required"}, []string{f.Title, f.Detail})
	for _, b := range []string{`{`, `{}`, `{"service_instance":{}}`, `{"service_instance":{"spec":[]}}`, `{"service_instance":{"spec":{"service_type":1}}}`} {
		p.do("POST", alphaEval, b).fault(t, 400, "about:blank")
	}
}

func TestWhatThePlaneCannotIsSaidToExistingClients(t *testing.T) {
	var full error
	p := newPlane(t, impatient, func(d *api.Deps) { d.Writable = func() error { return full } })
	for i, id := range []string{"a", "b"} {
		require.Equal(t, 201, p.do("POST", alphas+"?id="+id, alphaDraft(t, id, i+1, "package a")).StatusCode)
	}
	a := p.do("POST", alphas+"?dry_run&id=c", alphaDraft(t, "c", 3, "package a"))
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	n := p.log.Len()
	create := func() answer { return p.do("POST", alphas, alphaDraft(t, "c", 3, "package a")) }
	update := func(header ...string) answer { return p.do("PATCH", alphas+"/a", `{"priority":9}`, header...) }
	remove := func(header ...string) answer { return p.do("DELETE", alphas+"/a", "", header...) }

	p.do("PATCH", alphas+"/a", `{"priority":2}`).fault(t, 409, "ALREADY_EXISTS")
	update(`If-Match: "99"`).fault(t, 412, "ABORTED")
	remove(`If-Match: "99"`).fault(t, 412, "ABORTED")
	remove("If-Match: x").fault(t, 400, "INVALID_ARGUMENT")
	for _, path := range []string{alphas + "/a", "/api/v1alpha1/health"} {
		p.do("GET", path, "", "X-Correlation-Id: a\tb").fault(t, 400, "INVALID_ARGUMENT")
	}
	large := `{"display_name":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, route := range [][2]string{{"POST", alphas}, {"PATCH", alphas + "/a"}, {"POST", alphaEval}} {
		for status, a := range map[int]answer{
			413: p.do(route[0], route[1], large), 415: p.do(route[0], route[1], `{}`, "Content-Type: text/plain"),
		} {
			kind := "INVALID_ARGUMENT"
			if route[1] == alphaEval {
				kind = "about:blank"
			}
			a.fault(t, status, kind)
		}
	}
	full = errors.New("0 bytes left")
	for _, a := range []answer{create(), update(), remove()} {
		a.fault(t, 507, "UNAVAILABLE")
	}
	full = nil
	p.log.Fail(errDown)
	for _, a := range []answer{create(), update(), remove(), p.do("GET", alphas+"/ghost", "")} {
		a.fault(t, 503, "UNAVAILABLE")
	}
	p.log.Fail(nil)
	require.Equal(t, n, p.log.Len(), "nothing is written")

	id := p.admit(t, admissionDraft(t, "n", "Tenant", 1, "package a"))
	p.want(412, "precondition_failed", p.do("DELETE", admissions+"/"+id, "", `If-Match: "99"`))
}

func TestTooManyEvaluationsAtOnceAreRefused(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{Limits: admission.Limits{
			Concurrency: 1, Sprint: time.Minute, PolicyTimeout: time.Minute, ChainTimeout: 50 * time.Millisecond,
		}})
	})
	p.admit(t, admissionDraft(t, "slow", "Global", 1, specified(`{"patch": {"n": count([1 | some i in numbers.range(1, 10000); some j in numbers.range(1, 10000); i == j])}}`)))
	for path, b := range map[string]string{
		evaluating: `{"request_payload":{}}`, alphaEval: `{"service_instance":{"spec":{"service_type":"x"}}}`,
	} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[int]int{}
		for range 8 {
			wg.Go(func() {
				status := p.do("POST", path, b).StatusCode
				mu.Lock()
				defer mu.Unlock()
				seen[status]++
			})
		}
		wg.Wait()
		require.Positive(t, seen[503], "%v", seen)
		require.Equal(t, 8, seen[503]+seen[500], "%v", seen)
	}
}

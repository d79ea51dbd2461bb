package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
)

func TestAPutReplacesTheWholePolicy(t *testing.T) {
	p := newPlane(t)
	id := p.admit(t, admissionDraft(t, "guard", "Tenant", 7, specified(`{"reject": true}`), "tenant_id", "acme", "description", "d", "service_type", "db",
		"label_selector", map[string]string{"a": "b"}, "enabled", false, "mode", "shadow", "test_cases", []any{
			map[string]any{"request": map[string]any{"request_payload": map[string]any{}}, "expect": map[string]any{"status": "rejected"}},
		}))
	at := admissions + "/" + id
	shown := p.do("GET", at, "")
	n := p.log.Len()
	p.want(200, "", p.do("PUT", at, string(shown.body)))
	require.Equal(t, n, p.log.Len(), "what GET shows can be put back, and is the same")
	p.want(422, "immutable_field", p.do("PUT", at, strings.Replace(string(shown.body), `"id":"`+id, `"id":"other`, 1)))

	a := p.do("PUT", at, body(t, "rego_code", specified("{}")))
	p.want(200, "", a)
	now := into[resource.AdmissionPolicy](t, a)
	require.Equal(t, resource.AdmissionPolicy{
		ID: id, Name: "guard", PolicyType: "Tenant", TenantID: "acme", Priority: 500, Enabled: true, Mode: "enforce", RegoCode: specified("{}"),
		Version: now.Version, CreatedAt: now.CreatedAt, UpdatedAt: now.UpdatedAt, CreatedBy: now.CreatedBy,
	}, now, "what is absent has its default, as in a policy that is new")
	p.want(422, "required", p.do("PUT", at, body(t, "priority", 1)))
	p.admit(t, admissionDraft(t, "other", "Tenant", 8, specified("{}"), "tenant_id", "acme"))
	p.want(409, "priority_taken", p.do("PUT", at, body(t, "rego_code", specified("{}"), "priority", 8)))
}

// TestUnknownParametersAreRefused asks every route of the product.
func TestUnknownParametersAreRefused(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	names := strings.NewReplacer("{project}", project, "{policy}", project, "{revision}", project, "{node}", "n", "{admission}", "a", "{principal}", "a", "{kind}", "k", "{name}", "n", "{key}", "k", "{seq}", "1", "{profile}", "heap")
	handler := api.New(p.deps)
	asked := 0
	for _, r := range api.Routes() {
		if r.ID == "endSignIn" {
			continue // issuers send browsers back with what they like
		}
		path := names.Replace(r.Pattern)
		require.NotContains(t, path, "{")
		for _, query := range []string{"bogus=1", "%zz"} {
			var header []string
			if r.BodyType != "" {
				header = []string{"Content-Type: " + r.BodyType}
			}
			a := serve(t, handler, r.Method, path+"?"+query, "", header...)
			require.Equal(t, http.StatusBadRequest, a.StatusCode, "%s %s: %s", r.Method, path, a.body)
			if query == "bogus=1" {
				require.Contains(t, string(a.body), "bogus", "%s %s", r.Method, path)
			}
			asked++
		}
	}
	require.Greater(t, asked, 100)
	require.Zero(t, p.log.Len())
	p.want(404, "route_not_found", p.do("GET", "/nothing?bogus=1", ""))
	require.Equal(t, "nothing is here: the console is at /ui/, the API below /v1/, and what describes it at /openapi.json",
		p.do("GET", "/", "").problem(t).Detail, "who asks for the address alone learns what there is")
	p.want(400, "unknown_parameter", p.do("GET", admissions+"?priority=3", ""))
	a := p.do("PATCH", alphas+"/a?update_mask=priority", `{}`)
	a.fault(t, 400, "INVALID_ARGUMENT")
}

// Of two values of a parameter neither may count as none.
func TestAParameterIsGivenOnce(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"a":"1"}}`)
	for _, path := range []string{
		nodes + "?label_selector=a&label_selector=b", nodes + "?state=silent&report&state=applied", "/v1/audit?limit=1&limit=2", policies + "?rule=tcp&rule=443",
		"/v1/nodes/n1/state?min_seq=1&min_seq=2", "/v1/nodes/n1/state?at=1&at=1",
	} {
		a := p.do("GET", path, "")
		p.want(http.StatusBadRequest, "unknown_parameter", a)
		require.Contains(t, a.problem(t).Detail, "twice")
	}
}

func TestWhatARequestIsOfMustBeATextAndLabelsTexts(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "guard", "Global", 1, specified(`{"reject": true}`), "service_type", "db"))
	p.admit(t, admissionDraft(t, "prod", "Global", 2, specified(`{"reject": true}`), "label_selector", map[string]string{"env": "prod"}))
	for payload, pointer := range map[string]string{
		`{"service_type":7}`:                                        "/service_type",
		`{"service_type":null}`:                                     "/service_type",
		`{"service_type":["db"]}`:                                   "/service_type",
		`{"service_type":"x","metadata":{"labels":{"env":7}}}`:      "/metadata/labels/env",
		`{"service_type":"x","metadata":{"labels":{"env":null}}}`:   "/metadata/labels/env",
		`{"service_type":"x","metadata":{"labels":["env","prod"]}}`: "/metadata/labels",
		`{"service_type":"x","metadata":"labels"}`:                  "/metadata",
	} {
		a := p.do("POST", evaluating, `{"request_payload":`+payload+`}`)
		p.want(400, "wrong_type", a)
		require.Equal(t, "/request_payload"+pointer, a.problem(t).Errors[0].Pointer)
		f := p.do("POST", alphaEval, `{"service_instance":{"spec":`+payload+`}}`).fault(t, 400, "about:blank")
		if strings.Contains(payload, "metadata") {
			require.Contains(t, f.Detail, "metadata")
		}
	}
	for _, payload := range []string{`{}`, `{"metadata":null}`, `{"metadata":{"labels":null}}`, `{"metadata":{"labels":{}}}`} {
		p.want(200, "", p.do("POST", evaluating, `{"request_payload":`+payload+`}`))
	}
}

func TestConstraintsThatNothingMeetsAreNotTaken(t *testing.T) {
	p := newPlane(t)
	rule := `{"constraints": {"cpu": {"minimum": 5, "maximum": 4}}}`
	a := p.do("POST", admissions, admissionDraft(t, "n", "Global", 1, specified(rule)))
	p.want(400, "invalid_rego", a)
	require.Equal(t, "invalid_constraint", a.problem(t).Errors[0].Code)
	p.do("POST", alphas, alphaDraft(t, "n", 1, inherited(rule))).fault(t, 400, "INVALID_ARGUMENT")
	require.Zero(t, p.log.Len())

	p.admit(t, admissionDraft(t, "low", "Global", 1, specified(`{"constraints": {"cpu": {"minimum": 5}}}`)))
	user := p.admit(t, admissionDraft(t, "high", "User", 1, specified(`{"constraints": {"cpu": {"maximum": 4}}}`)))
	a = p.do("POST", evaluating, `{"request_payload":{}}`)
	p.want(409, "policy_conflict_error", a)
	require.Equal(t, user, a.problem(t).Policy.ID)
	require.Contains(t, a.problem(t).Errors[0].Detail, `"low"`, "both are named")
}

func TestExistingClientsAreRefusedWhatTheyDoNotMean(t *testing.T) {
	p := newPlane(t)
	require.Equal(t, 201, p.do("POST", alphas+"?id=a", alphaDraft(t, "a", 1, "package a")).StatusCode)
	n := p.log.Len()
	for name, b := range map[string]string{
		"a member twice":             `{"priority":2,"priority":3}`,
		"a member twice, within":     `{"label_selector":{"a":"b","a":"c"}}`,
		"a member in two cases":      `{"priority":2,"Priority":3}`,
		"a text for a number":        `{"priority":"5"}`,
		"a text for a number, cased": `{"Priority":"5"}`,
		"a number for a label":       `{"label_selector":{"a":1}}`,
		"a text for a flag":          `{"enabled":"true"}`,
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, api.New(p.deps), "PATCH", alphas+"/a", b).fault(t, 400, "INVALID_ARGUMENT")
		})
	}
	require.Equal(t, n, p.log.Len())
	p.do("POST", alphaEval, `{"service_instance":{"spec":{"service_type":"vm","cpu":1,"cpu":64}}}`).fault(t, 400, "about:blank")
	a := serve(t, api.New(p.deps), "PATCH", alphas+"/a", `{"Priority":9,"extra":{"x":1}}`)
	require.Equal(t, 200, a.StatusCode, "what they may send stays taken: %s", a.body)
	require.Equal(t, 9, into[resource.AlphaPolicy](t, a).Priority)
}

func TestADeletionThatComesAgainTakesNoNewPolicy(t *testing.T) {
	p := newPlane(t)
	make := func() {
		a := p.do("POST", alphas+"?id=a", alphaDraft(t, "a", 1, "package a"))
		require.Equal(t, 201, a.StatusCode, "%s", a.body)
	}
	for path, code := range map[string]string{admissions: "stale_event", alphas: ""} {
		make()
		key := "Idempotency-Key: " + path
		require.Equal(t, 204, p.do("DELETE", path+"/a", "", key).StatusCode)
		make()
		p.log.Forget()
		p.Handler = judged(t, api.New(p.deps)) // the worker starts again
		p.want(409, code, p.do("DELETE", path+"/a", "", key))
		require.Equal(t, 204, p.do("DELETE", path+"/a", "").StatusCode)
	}
}

package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// FuzzLastEventID: digits resume, nothing is live, all else is refused.
func FuzzLastEventID(f *testing.F) {
	p := newPlane(f)
	p.put("n1", `{}`)
	for _, seed := range []string{"", "0", "7", "18446744073709551616", "-1", "1.5", " 1", "٣", "1\x00"} {
		f.Add(seed)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel() // the stub's stream ends at once
	f.Fuzz(func(t *testing.T, id string) {
		r := httptest.NewRequestWithContext(gone, "GET", "/v1/nodes/n1/events", nil)
		r.Header.Set("Last-Event-ID", id)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		want := http.StatusOK
		if strings.ContainsFunc(id, func(c rune) bool { return c < '0' || c > '9' }) {
			want = http.StatusBadRequest
		}
		require.Equal(t, want, w.Code, "%q", id)
	})
}

// FuzzDocument sends one body to every route that takes a document.
func FuzzDocument(f *testing.F) {
	p := newPlane(f)
	made := p.create("web")
	one := policies + "/" + made.ID.String()
	f.Add(draft("db"))
	f.Add(`{"labels":{"role":"db"},"addresses":["10.0.0.9"]}`)
	f.Add(`{"selector":{"source":"a","destination":"!b"},"rules":` + webRules + `}`)
	f.Add(`{"display_name":"Front","expected_revision_id":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, to := range []struct{ method, path string }{
			{"POST", policies}, {"PATCH", one}, {"POST", one + "/dry-run"}, {"PUT", nodes + "/n1"},
		} {
			before := p.log.Len()
			a := serve(t, p.Handler, to.method, to.path, body, "Content-Type: application/json")
			require.Less(t, a.StatusCode, 500, "%s", a.body)
			if a.StatusCode >= 300 {
				require.Equal(t, before, p.log.Len(), "what is refused writes nothing")
			}
		}
	})
}

// FuzzPath asks for a node and a policy of any name.
func FuzzPath(f *testing.F) {
	p := newPlane(f)
	for _, seed := range []string{"n1", "a.b", "*", ">", "a b", "..", "/", "\x00", "%", "A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			return
		}
		segment := strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		for _, path := range []string{nodes + "/" + segment, policies + "/" + segment, "/v1/nodes/" + segment + "/state"} {
			a := serve(t, p.Handler, "GET", path, "")
			require.Contains(t, []int{404, 422}, a.StatusCode, "%s: %s", path, a.body)
		}
	})
}

// FuzzAlpha asks anything of the surface that existing clients speak: nothing
// but their codes comes back, and what is refused writes nothing.
func FuzzAlpha(f *testing.F) {
	p := newPlane(f)
	made := serve(f, p.Handler, "POST", alphas+"?id=guard", `{"display_name":"guard","policy_type":"GLOBAL","rego_code":"package guard\n\nmain := {\"patch\": {\"a\": 1}}"}`)
	require.Equal(f, 201, made.StatusCode, "%s", made.body)
	for _, seed := range []struct {
		ask   uint8
		id    string
		query string
		body  string
	}{
		{0, "", "id=a-1", `{"display_name":"n","policy_type":"USER","priority":7,"rego_code":"package a\n\nmain := {}","label_selector":{"a":"b"}}`},
		{0, "", "id=A", `{"display_name":" ","policy_type":"TENANT","priority":1.5,"rego_code":"package"}`},
		{0, "", "dry_run=true", `{"display_name":null,"enabled":"no"}`},
		{1, "", "filter=policy_type%3D'GLOBAL'%20AND%20enabled%3Dtrue&order_by=priority%20desc,display_name&max_page_size=1", ""},
		{1, "", "page_token=e30&filter=policy_type%20=%20'TENANT'", ""},
		{2, "guard", "", ""},
		{3, "guard", "", `{"description":null,"priority":1000,"label_selector":{},"rego_code":"package a\n\nmain { input.x }"}`},
		{3, "guard", "dry_run=1", `{"id":"other"}`},
		{4, "nobody", "", ""},
		{5, "", "explain=full", `{"service_instance":{"spec":{"service_type":"vm","metadata":{"labels":{"a":"b"}},"n":1e400}}}`},
		{5, "", "", `{"service_instance":{"spec":[]}}`},
		{6, "", "", ""},
		{7, "guard", "", "{}"},
	} {
		f.Add(seed.ask, seed.id, seed.query, seed.body)
	}
	f.Fuzz(func(t *testing.T, ask uint8, id, query, body string) {
		if _, err := url.ParseQuery(query); err != nil || strings.ContainsFunc(query, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }) {
			return // no request line
		}
		one := alphas + "/" + strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
		to := []struct {
			method, path string
			statuses     []int
		}{
			{"POST", alphas, []int{200, 201, 400, 409}},
			{"GET", alphas, []int{200, 400}},
			{"GET", one, []int{200, 404}},
			{"PATCH", one, []int{200, 400, 404, 409}},
			{"DELETE", one, []int{204, 404}},
			{"POST", alphaEval, []int{200, 400, 406, 409, 500}},
			{"GET", "/api/v1alpha1/health", []int{200}},
			{"PUT", one, []int{404, 405}},
		}[ask%8]
		if id == "" && strings.HasPrefix(to.path, alphas+"/") {
			return
		}
		before := p.log.Len()
		a := serve(t, p.Handler, to.method, to.path+"?"+query, body, "Content-Type: application/json")
		require.Contains(t, to.statuses, a.StatusCode, "%s", a.body)
		if a.StatusCode >= 300 {
			require.Equal(t, before, p.log.Len(), "what is refused writes nothing")
		}
		if a.StatusCode >= 400 && to.method != "PUT" {
			fault := into[resource.AlphaError](t, a)
			require.Equal(t, a.StatusCode, fault.Status)
			require.NotEmpty(t, fault.Type)
		}
	})
}

package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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

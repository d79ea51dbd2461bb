package api_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
)

// The schemas of files are served, lie in docs/schemas, and take what the API takes.
func TestFilesHaveSchemas(t *testing.T) {
	p := newPlane(t)
	h := api.New(p.deps)
	good := map[string]string{
		"policy":    draft("web"),
		"node":      `{"id":"web-1","labels":{"role":"web"},"addresses":["10.0.0.1"]}`,
		"admission": `{"name":"a","policy_type":"Global","rego_file":"a.rego"}`,
	}
	for _, kind := range api.FileKinds {
		a := httptest.NewRecorder() // a file, which the description does not have
		h.ServeHTTP(a, httptest.NewRequest("GET", "/schemas/"+kind+".schema.json", nil))
		require.Equal(t, 200, a.Code)
		path := filepath.Join("..", "..", "docs", "schemas", "edict-"+kind+".schema.json")
		if *update {
			require.NoError(t, os.WriteFile(path, a.Body.Bytes(), 0o644))
		}
		shipped, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(shipped), a.Body.String())

		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(shipped)))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("file.json", doc))
		s, err := c.Compile("file.json")
		require.NoError(t, err)
		file, err := jsonschema.UnmarshalJSON(strings.NewReader(good[kind]))
		require.NoError(t, err)
		require.NoError(t, s.Validate(file), kind)
		require.Error(t, s.Validate(map[string]any{"slog": "x"}), kind)
	}
	p.want(404, "route_not_found", p.do("GET", "/schemas/other.schema.json", ""))
}

// Operators profile a worker without a listener of its own for that.
func TestAProcessIsProfiled(t *testing.T) {
	p, tokens := guarded(t, roles)
	a := p.do("GET", "/debug/pprof/goroutine", "", bearer(tokens["admin"]))
	p.want(200, "", a)
	require.Equal(t, "\x1f\x8b", string(a.body[:2]), "what go tool pprof reads is gzip-coded")
	p.want(200, "", p.do("GET", "/debug/pprof/trace?seconds=1", "", bearer(tokens["admin"])))
	p.want(403, "", p.do("GET", "/debug/pprof/heap", "", bearer(tokens["viewer"])))
	none := p.do("GET", "/debug/pprof/none", "", bearer(tokens["admin"]))
	p.want(404, "route_not_found", none)
	_, there, _ := strings.Cut(string(none.body), "there are ")
	there, _, _ = strings.Cut(there, `"`)
	kept := strings.Split(there, ", ")[2:]
	require.Len(t, kept, 6)
	for _, name := range kept {
		p.want(200, "", p.do("GET", "/debug/pprof/"+name, "", bearer(tokens["admin"])))
	}
	p.want(400, "", p.do("GET", "/debug/pprof/profile?seconds=900", "", bearer(tokens["admin"])))
}

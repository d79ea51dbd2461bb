package api_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/test/contract"
	"github.com/edictdev/edict/internal/test/gen"
)

// described is the document as the plane serves it, ready to judge.
func described(t testing.TB) *contract.Contract {
	t.Helper()
	c, err := theContract()
	require.NoError(t, err)
	return c
}

func TestTheDescriptionIsGolden(t *testing.T) {
	gen.Unraced()
	first, err := api.Describe().Encode()
	require.NoError(t, err)
	for range 2 {
		again, err := api.Describe().Encode()
		require.NoError(t, err)
		require.Equal(t, string(first), string(again), "equal binaries describe themselves in equal bytes")
	}
	for name, part := range parts(t) {
		golden(t, name, part)
	}
	whole, err := contract.Document()
	require.NoError(t, err)
	require.JSONEq(t, string(first), string(whole), "the golden files are all of it")
	require.LessOrEqual(t, len(first), 250_000, "what generators of clients and people's editors read stays small")
	a := newPlane(t).do("GET", "/openapi.json", "")
	require.Equal(t, string(first), string(a.body), "what is served is the document")
}

// parts are the description in files of a size that a reader can compare: the operations of
// each tag, and all else.
func parts(t *testing.T) map[string][]byte {
	t.Helper()
	doc, tags := api.Describe(), map[string]map[string]openapi.Path{}
	for path, item := range doc.Paths {
		for method, op := range item {
			name := "openapi-" + strings.ReplaceAll(op.Tags[0], " ", "-") + ".json"
			if tags[name] == nil {
				tags[name] = map[string]openapi.Path{}
			}
			if tags[name][path] == nil {
				tags[name][path] = openapi.Path{}
			}
			tags[name][path][method] = op
		}
	}
	doc.Paths = nil
	rest, err := doc.Encode()
	require.NoError(t, err)
	out := map[string][]byte{"openapi.json": indented(t, rest, "\t")}
	for name, paths := range tags {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		require.NoError(t, enc.Encode(paths))
		out[name] = b.Bytes()
	}
	return out
}

func indented(t *testing.T, doc []byte, by string) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, doc, "", by))
	return b.Bytes()
}

// Every route that is registered is described, and nothing else is.
func TestTheDescriptionIsTheRouteTable(t *testing.T) {
	served := map[string]bool{}
	for _, r := range api.Routes() {
		served[r.Method+" "+r.Pattern] = true
	}
	p := newPlane(t)
	for path, item := range api.Describe().Paths {
		for method := range item {
			key := strings.ToUpper(method) + " " + path
			require.True(t, served[key], key)
			delete(served, key)
		}
		// The handler knows the path: another method is 405, not 404.
		concrete := strings.NewReplacer("{project}", project, "{policy}", nowhere, "{revision}", nowhere, "{node}", "n1", "{kind}", "vertex", "{name}", "flor").Replace(path)
		p.want(405, "method_not_allowed", p.do("BREW", concrete, ""))
	}
	require.Empty(t, served)
}

// lint walks the document's tree.
func lint(t *testing.T, at string, v any, visit func(at string, object map[string]any)) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		visit(at, v)
		for k, x := range v {
			lint(t, at+"/"+k, x, visit)
		}
	case []any:
		for _, x := range v {
			lint(t, at+"/-", x, visit)
		}
	}
}

func TestTheDescriptionIsClean(t *testing.T) {
	gen.Unraced()
	b, err := api.Describe().Encode()
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(b, &doc))
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	used, ids := map[string]bool{}, map[string]bool{}
	lint(t, "", doc, func(at string, o map[string]any) {
		if ref, ok := o["$ref"].(string); ok {
			kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
			require.Contains(t, doc["components"].(map[string]any)[kind], name, "%s: $ref resolves", at)
			if kind == "schemas" {
				used[name] = true
			}
		}
		if id, ok := o["operationId"].(string); ok {
			require.False(t, ids[id], "operationId %s is unique", id)
			ids[id] = true
		}
		if d, ok := o["description"]; ok {
			require.NotEmpty(t, d, at)
		}
	})
	for name, s := range schemas {
		require.True(t, used[name], "%s is used", name)
		s := s.(map[string]any)
		require.NotEmpty(t, s["description"], name)
		if s["type"] != "object" {
			require.Contains(t, []any{"string", "integer", "boolean", "array"}, s["type"], "%s is a value", name)
			require.NotContains(t, s, "properties", name)
			continue
		}
		ofAgents := slices.Contains([]string{"RegisterRequest", "Heartbeat", "Drift", "Correction", "StateReport"}, name)
		require.Equal(t, ofAgents, s["additionalProperties"], "%s is closed, unless agents of the field send it", name)
		for member, m := range s["properties"].(map[string]any) {
			m := m.(map[string]any)
			if ref, ok := m["$ref"].(string); ok && m["description"] == nil {
				m = schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
			}
			require.NotEmpty(t, m["description"], "%s.%s", name, member)
		}
	}
	shared := api.Describe().Components.Parameters
	for path, item := range api.Describe().Paths {
		for _, op := range item {
			require.NotEmpty(t, op.Description, op.ID)
			declared := map[string]bool{}
			for _, p := range op.Parameters {
				p = shared[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				require.False(t, declared[p.In+p.Name], "%s declares %s once", op.ID, p.Name)
				declared[p.In+p.Name] = true
				if p.In == "path" {
					require.Contains(t, path, "{"+p.Name+"}")
				}
			}
			for _, part := range strings.Split(path, "{")[1:] {
				name, _, _ := strings.Cut(part, "}")
				require.True(t, declared["path"+name], "%s declares %s", op.ID, name)
			}
			require.Contains(t, op.Responses, "5XX")
		}
	}
}

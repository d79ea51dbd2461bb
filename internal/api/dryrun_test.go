package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
)

// wet are routes that need room in the log and know no dry run, each with why.
var wet = map[string]string{
	"rotateKey":      "what can fail is done with the key, before its event",
	"registerNode":   "an agent's route: its token is good once",
	"compactLog":     "what is removed is stored and proved first, which is the work",
	"reportApplied":  "a node's route: reports are no events",
	"createSnapshot": "it is a file beside the log",
}

// dryRun sends a request of a route that writes as a dry run, which must be taken and
// write nothing.
func dryRun(t *testing.T, p *plane, r api.Route, target, body string, header ...string) {
	t.Helper()
	if !slices.ContainsFunc(r.Params, func(q api.Param) bool { return q.Name == "dry_run" }) {
		_, is := wet[r.ID]
		appends := slices.Contains(r.Problems, "storage_low")
		require.Equal(t, appends, is, "%s: a write has dry_run, or is named in wet with a reason", r.ID)
		return
	}
	before := p.log.Len()
	a := p.do(r.Method, withQuery(target, "dry_run=true"), body, header...)
	require.Less(t, a.StatusCode, 300, "%s", a.body)
	require.Equal(t, before, p.log.Len(), "a dry run writes nothing")
}

const missing = "01900000-0000-7000-8000-00000000ffff"

func withQuery(target, more string) string {
	if strings.Contains(target, "?") {
		return target + "&" + more
	}
	return target + "?" + more
}

// TestADryRunSaysWhatTheWriteWould sends writes that are refused, change nothing, or change
// something, dry first.
func TestADryRunSaysWhatTheWriteWould(t *testing.T) {
	p := newPlane(t)
	web := into[resource.Policy](t, p.do("POST", policies, draft("web")))
	one := policies + "/" + web.ID.String()
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{"labels":{"role":"web"}}`))
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"a policy that would be made", "POST", policies, draft("db"), 204, ""},
		{"a slug that is taken", "POST", policies, draft("web"), 409, "policy_slug_taken"},
		{"a draft that is wrong", "POST", policies, `{"slug":"X"}`, 422, "invalid_slug"},
		{"a revision", "PATCH", one, `{"display_name":"Front"}`, 204, ""},
		{"a revision that says what is there", "PATCH", one, `{"selector":{"source":"role=web","destination":"role=db"}}`, 200, ""},
		{"a policy that would go", "DELETE", one, "", 204, ""},
		{"a policy that is not there", "DELETE", policies + "/" + missing, "", 404, "policy_not_found"},
		{"a node that would be made", "PUT", nodes + "/n2", `{}`, 204, ""},
		{"a node that is so", "PUT", nodes + "/n1", `{"labels":{"role":"web"}}`, 200, ""},
		{"a promotion of nothing", "POST", one + "/promote", `{}`, 409, "not_staged"},
		{"a project with nodes put away", "PATCH", "/v1/projects/" + project, `{"archived":true}`, 409, "project_in_use"},
		{"a flag that is none", "DELETE", one + "?dry_run=perhaps", "", 400, "wrong_type"},
	} {
		t.Log(c.name)
		before, path := p.log.Len(), c.path
		if !strings.Contains(path, "dry_run") {
			path = withQuery(path, "dry_run")
		}
		p.want(c.status, c.code, p.do(c.method, path, c.body))
		require.Equal(t, before, p.log.Len())
	}
}

// TestADryRunOfABatchJudgesEachLine by what is there and what the lines before it would
// leave, and counts as the batch would.
func TestADryRunOfABatchJudgesEachLine(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{}`))
	p.want(http.StatusOK, "", p.do("PUT", "/v1/projects/"+project+"/quota", `{"nodes":1}`))
	before := p.log.Len()
	lines := `{"id":"n1"}` + "\n" + `{"id":"n1","labels":{"a":"b"}}` + "\n" + `{"id":"n1","labels":{"a":"b"}}` + "\n" + `{"id":"n2"}` + "\n" + `{"no":1}` + "\n"
	r := into[resource.BatchResult](t, p.do("POST", nodes+":batch?dry_run=true", lines, "Content-Type: application/x-ndjson"))
	require.Equal(t, before, p.log.Len())
	require.Equal(t, 1, r.Applied)
	require.Equal(t, 2, r.Unchanged)
	require.Len(t, r.Rejected, 2)
	require.Equal(t, "quota_exceeded", r.Rejected[0].Code)
	require.Equal(t, 4, r.Rejected[0].Line)
}

// TestADryRunOfABatchSaysWhatTheBatchThenSays sends batches dry, then for real: lines that
// spend a quota, and repeat or undo what earlier lines said, near and far.
func TestADryRunOfABatchSaysWhatTheBatchThenSays(t *testing.T) {
	gen.Unraced()
	far := []string{`{"id":"n1","labels":{"a":"b"}}`, `{"id":"n2"}`}
	for i := range 2500 { // some chunks of a batch
		far = append(far, fmt.Sprintf(`{"id":"m%d"}`, i))
	}
	far = append(far, `{"id":"n1","labels":{"a":"b"}}`, `{"id":"n2","labels":{"a":"c"}}`, `{"id":"n2"}`, `{"id":"n1"}`)
	for _, c := range []struct {
		name, quota string
		lines       []string
		want        resource.BatchResult // without what is rejected
		rejected    []int
	}{
		{"two nodes, and room for one", `{"nodes":2}`, []string{`{"id":"n2"}`, `{"id":"n3"}`, `{"id":"n3"}`, `{"id":"n2","labels":{"a":"b"}}`}, resource.BatchResult{Applied: 2}, []int{2, 3}},
		{"a label set that a line gives up", `{"label_sets":2}`, []string{
			`{"id":"n2","labels":{"a":"1"}}`, `{"id":"n2","labels":{"a":"2"}}`, `{"id":"n3","labels":{"a":"1"}}`, `{"id":"n3","labels":{"a":"2"}}`,
		}, resource.BatchResult{Applied: 3}, []int{3}},
		{"events of a day", `{"events_per_day":2}`, []string{`{"id":"n2"}`, `{"id":"n1","labels":{"a":"1"}}`, `{"id":"n1","labels":{"a":"2"}}`}, resource.BatchResult{Applied: 2}, []int{3}},
		{"what was said long before", `{}`, far, resource.BatchResult{Applied: 2505, Unchanged: 1}, nil},
	} {
		t.Log(c.name)
		p := newPlane(t)
		p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{}`))
		p.want(http.StatusOK, "", p.do("PUT", "/v1/projects/"+project+"/quota", c.quota))
		lines := strings.Join(c.lines, "\n") + "\n"
		send := func(query string, header ...string) resource.BatchResult {
			header = append(header, "Content-Type: application/x-ndjson", "Idempotency-Key: once")
			return into[resource.BatchResult](t, p.do("POST", nodes+":batch"+query, lines, header...))
		}
		dry := send("?dry_run=true")
		require.Equal(t, c.want.Applied, dry.Applied)
		require.Equal(t, c.want.Unchanged, dry.Unchanged)
		var rejected []int
		for _, r := range dry.Rejected {
			rejected = append(rejected, r.Line)
		}
		require.Equal(t, c.rejected, rejected)
		require.Equal(t, send(""), dry)
		if c.quota != `{"events_per_day":2}` { // of which a retry is refused as a whole
			require.Equal(t, send("?dry_run=true"), send(""), "a retry")
		}
	}
}

// TestADryRunOfAKeyThatWasUsed answers as the write would.
func TestADryRunOfAKeyThatWasUsed(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("POST", policies, draft("web"), "Idempotency-Key: k"))
	p.want(http.StatusUnprocessableEntity, "idempotency_key_reused", p.do("POST", policies+"?dry_run=true", draft("db"), "Idempotency-Key: k"))
}

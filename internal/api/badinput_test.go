package api_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
)

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

// inflating is n times as much, compressed a part at a time: to compress a megabyte takes
// longer than most tests.
func inflating(part string, n int) string { return strings.Repeat(gzipped(part), n) }

// withRule is a draft of one rule, written as its author would.
func withRule(rule string) string {
	return `{"slug":"x","selector":{"source":"a=b","destination":"c"},"rules":[` + rule + `]}`
}

func rule(action, protocol, source, destination, ports string) string {
	return fmt.Sprintf(`{"action":%q,"protocol":%q,"source_cidr":%q,"destination_cidr":%q%s}`,
		action, protocol, source, destination, ports)
}

const somePorts = `,"ports":{"from":1,"to":2}`

func rules(n int) string {
	one := rule("allow", "tcp", "10.0.0.0/8", "10.0.0.0/8", somePorts)
	return withRule(strings.TrimSuffix(strings.Repeat(one+",", n), ","))
}

type badInput struct {
	name, method, path, body string
	header                   []string
	status                   int
	code                     string
}

// documents are bodies no route takes; each is sent to every route with one.
var documents = sync.OnceValue(func() []badInput {
	return []badInput{
		{name: "nothing", body: " ", status: 400, code: "malformed_json"},
		{name: "half a document", body: `{"slug":`, status: 400, code: "malformed_json"},
		{name: "two documents", body: `{}{}`, status: 400, code: "malformed_json"},
		{name: "bytes that are no text", body: "\xff\xfe", status: 400, code: "malformed_json"},
		{name: "an unknown field", body: `{"colour":"red"}`, status: 400, code: "unknown_field"},
		{name: "a list", body: `[]`, status: 400, code: "wrong_type"},
		{name: "a number", body: `7`, status: 400, code: "wrong_type"},
		{name: "2 MiB", body: `{"slug":"` + strings.Repeat("x", 2<<20) + `"}`, status: 413, code: "body_too_large"},
		{
			name: "2 MiB inflated", body: inflating(strings.Repeat(" ", 1<<18), 8),
			header: []string{"Content-Encoding: gzip"}, status: 413, code: "body_too_large",
		},
		{name: "gzip that is none", body: `{}`, header: []string{"Content-Encoding: gzip"}, status: 400, code: "malformed_json"},
		{name: "an encoding nobody knows", body: `{}`, header: []string{"Content-Encoding: br"}, status: 415, code: "unsupported_media_type"},
		{name: "no media type", body: `{}`, header: []string{"Content-Type: -"}, status: 415, code: "unsupported_media_type"},
		{name: "a form", body: `{}`, header: []string{"Content-Type: application/x-www-form-urlencoded"}, status: 415, code: "unsupported_media_type"},
		{name: "another charset", body: `{}`, header: []string{"Content-Type: application/json; charset=latin1"}, status: 415, code: "unsupported_media_type"},
		{name: "a principal of several lines", body: `{}`, header: []string{"X-Edict-Principal: a\x01b"}, status: 400, code: "bad_header"},
		{name: "a page of another site", body: `{}`, header: []string{"Sec-Fetch-Site: cross-site"}, status: 400, code: "bad_header"},
		{name: "a page of another origin, in an older browser", body: `{}`, header: []string{"Origin: https://elsewhere.test"}, status: 400, code: "bad_header"},
		{name: "a key without end", body: `{}`, header: []string{"Idempotency-Key: " + strings.Repeat("k", 300)}, status: 400, code: "bad_header"},
		{name: "two keys", body: `{}`, header: []string{"Idempotency-Key: a", "Idempotency-Key: b"}, status: 400, code: "bad_header"},
		{name: "two principals", body: `{}`, header: []string{"X-Edict-Principal: a", "X-Edict-Principal: b"}, status: 400, code: "bad_header"},
		{name: "a correlation id without end", body: `{}`, header: []string{"X-Correlation-Id: " + strings.Repeat("k", 300)}, status: 400, code: "bad_header"},
	}
})

// drafts are policies that break a rule of the domain.
func drafts() []badInput {
	ok4, ok6 := "10.0.0.0/8", "fd00::/8"
	return []badInput{
		{name: "nothing given", body: `{}`, code: "required"},
		{name: "a slug with capitals", body: strings.Replace(draft("web"), `"web"`, `"Web"`, 1), code: "invalid_slug"},
		{name: "no rules", body: withRule(""), code: "rules_out_of_range"},
		{name: "1,025 rules", body: rules(1025), code: "rules_out_of_range"},
		{name: "inverted ports", body: withRule(rule("allow", "tcp", ok4, ok4, `,"ports":{"from":2,"to":1}`)), code: "port_range_inverted"},
		{name: "port 0", body: withRule(rule("allow", "tcp", ok4, ok4, `,"ports":{"from":0,"to":1}`)), code: "port_out_of_range"},
		{name: "port 65536", body: withRule(rule("allow", "tcp", ok4, ok4, `,"ports":{"from":1,"to":65536}`)), code: "port_out_of_range"},
		{name: "tcp without ports", body: withRule(rule("allow", "tcp", ok4, ok4, "")), code: "ports_required"},
		{name: "icmp with ports", body: withRule(rule("allow", "icmp", ok4, ok4, somePorts)), code: "ports_forbidden"},
		{name: "two families", body: withRule(rule("allow", "any", ok4, ok6, "")), code: "cidr_family_mismatch"},
		{name: "host bits", body: withRule(rule("allow", "any", "10.0.0.1/8", ok4, "")), code: "cidr_not_masked"},
		{name: "no prefix", body: withRule(rule("allow", "any", "ten", ok4, "")), code: "invalid_cidr"},
		{name: "an unknown action", body: withRule(rule("drop", "any", ok4, ok4, "")), code: "unknown_action"},
		{name: "an unknown protocol", body: withRule(rule("allow", "quic", ok4, ok4, "")), code: "unknown_protocol"},
		{name: "a selector and a CIDR on one side", body: withRule(`{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","source_selector":"a"}`), code: "selector_and_cidr"},
		{name: "a proxy port without redirect", body: withRule(`{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","proxy_port":80}`), code: "proxy_port_without_redirect"},
		{name: "an empty selector", body: strings.Replace(rules(1), `"a=b"`, `""`, 1), code: "selector_syntax_error"},
		{name: "a selector of nonsense", body: strings.Replace(rules(1), `"a=b"`, `"a=b,,"`, 1), code: "selector_syntax_error"},
	}
}

func TestBadInputGetsAProblemAndNothingElse(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	p.put("n1", `{}`)
	p.want(201, "", p.do("PUT", "/v1/projects/"+other+"/nodes/theirs", `{}`))
	made := p.create("taken")
	one := policies + "/" + made.ID.String()
	var table []badInput
	add := func(prefix string, row badInput) {
		row.name = prefix + ": " + row.name
		table = append(table, row)
	}
	for _, row := range drafts() {
		row.method, row.path, row.status = "POST", policies, 422
		add("a draft", row)
		if row.code == "required" || row.code == "invalid_slug" {
			continue
		}
		row.body = strings.Replace(row.body, `"slug":"x",`, "", 1)
		row.method, row.path = "PATCH", one
		add("a patch", row)
		row.method, row.path = "POST", one+"/dry-run"
		add("a preview", row)
	}
	for _, id := range []string{"a.b", "a*", "a%3E", "a%20b", "%2E", "%2E%2E", "a%2Fb", "A", "-a", strings.Repeat("a", 64), "%00"} {
		for _, route := range []struct{ method, path, body string }{
			{"PUT", nodes + "/" + id, `{}`},
			{"GET", nodes + "/" + id, ""},
			{"DELETE", nodes + "/" + id, ""},
			{"GET", "/v1/nodes/" + id + "/state", ""},
			{"GET", "/v1/nodes/" + id + "/events", ""},
			{"GET", "/v1/nodes/" + id + "/rulesets", ""},
		} {
			add("a node id", badInput{
				name: route.method + " " + route.path, method: route.method, path: route.path,
				body: route.body, status: 422, code: "invalid_node_id",
			})
		}
	}
	rev := one + "/revisions/"
	for _, row := range []badInput{
		{name: "a key twice", method: "POST", path: policies, body: `{"slug":"a","slug":"b"}`, status: 400, code: "duplicate_key"},
		{name: "a slug that is a number", method: "POST", path: policies, body: strings.Replace(draft("web"), `"web"`, `7`, 1), status: 400, code: "wrong_type"},
		{name: "a taken slug", method: "POST", path: policies, body: draft("taken"), status: 409, code: "policy_slug_taken"},
		{name: "a stale expectation", method: "PATCH", path: one, body: `{"display_name":"x","expected_revision_id":"` + nowhere + `"}`, status: 409, code: "revision_conflict"},
		{name: "an expectation that is no id", method: "PATCH", path: one, body: `{"expected_revision_id":"x"}`, status: 422, code: "invalid_uuid"},
		{name: "another project's node", method: "PUT", path: nodes + "/theirs", body: `{}`, status: 409, code: "node_id_taken"},
		{name: "an unknown policy", method: "GET", path: policies + "/" + nowhere, status: 404, code: "policy_not_found"},
		{name: "an unknown policy to revise", method: "PATCH", path: policies + "/" + nowhere, body: `{}`, status: 404, code: "policy_not_found"},
		{name: "an unknown policy to delete", method: "DELETE", path: policies + "/" + nowhere, status: 404, code: "policy_not_found"},
		{name: "an unknown policy's preview", method: "POST", path: policies + "/" + nowhere + "/dry-run", body: strings.Replace(rules(1), `"slug":"x",`, "", 1), status: 404, code: "policy_not_found"},
		{name: "an unknown policy's revisions", method: "GET", path: policies + "/" + nowhere + "/revisions", status: 404, code: "policy_not_found"},
		{name: "an unknown revision", method: "GET", path: rev + nowhere, status: 404, code: "revision_not_visible"},
		{name: "a diff from nowhere", method: "GET", path: one + "/diff?from_revision=" + nowhere + "&to_revision=" + made.HeadRevisionID.String(), status: 404, code: "revision_not_visible"},
		{name: "a diff of nothing", method: "GET", path: one + "/diff", status: 422, code: "required"},
		{name: "a diff of no ids", method: "GET", path: one + "/diff?from_revision=x&to_revision=y", status: 422, code: "invalid_uuid"},
		{name: "a project that is no id", method: "GET", path: "/v1/projects/mine/policies", status: 422, code: "invalid_uuid"},
		{name: "a project of zeros", method: "GET", path: "/v1/projects/00000000-0000-0000-0000-000000000000/nodes", status: 422, code: "invalid_uuid"},
		{name: "a policy that is no id", method: "GET", path: policies + "/web", status: 422, code: "invalid_uuid"},
		{name: "an unknown node", method: "GET", path: nodes + "/ghost", status: 404, code: "node_not_found"},
		{name: "an unknown node to remove", method: "DELETE", path: nodes + "/ghost", status: 404, code: "node_not_found"},
		{name: "an unknown node's state", method: "GET", path: "/v1/nodes/ghost/state", status: 404, code: "node_not_found"},
		{name: "an unknown node's events", method: "GET", path: "/v1/nodes/ghost/events", status: 404, code: "node_not_found"},
		{name: "labels of numbers", method: "PUT", path: nodes + "/n2", body: `{"labels":{"a":1}}`, status: 400, code: "wrong_type"},
		{name: "a label key with a space", method: "PUT", path: nodes + "/n2", body: `{"labels":{"a b":"c"}}`, status: 422, code: "invalid_label_key"},
		{name: "a label value too long", method: "PUT", path: nodes + "/n2", body: `{"labels":{"a":"` + strings.Repeat("x", 257) + `"}}`, status: 422, code: "invalid_label_value"},
		{name: "an address that is none", method: "PUT", path: nodes + "/n2", body: `{"addresses":["10.0.0"]}`, status: 422, code: "invalid_address"},
		{name: "a cursor that is none", method: "GET", path: policies + "?cursor=%21", status: 400, code: "bad_cursor"},
		{name: "a cursor of another list", method: "GET", path: policies + "?cursor=bjpuMQ", status: 400, code: "bad_cursor"},
		{name: "a policy cursor for nodes", method: "GET", path: nodes + "?cursor=cDp4", status: 400, code: "bad_cursor"},
		{name: "a cursor cut short", method: "GET", path: nodes + "?cursor=bjo", status: 400, code: "bad_cursor"},
		{name: "a revision cursor of words", method: "GET", path: one + "/revisions?cursor=cjp4", status: 400, code: "bad_cursor"},
		{name: "a limit of 0", method: "GET", path: nodes + "?limit=0", status: 400, code: "wrong_type"},
		{name: "a limit of words", method: "GET", path: nodes + "?limit=all", status: 400, code: "wrong_type"},
		{name: "a selector of nonsense", method: "GET", path: nodes + "?label_selector=a%3D%3D", status: 422, code: "selector_syntax_error"},
		{name: "min_seq of words", method: "GET", path: "/v1/nodes/n1/state?min_seq=now", status: 400, code: "wrong_type"},
		{name: "digest of words", method: "GET", path: "/v1/status?digest=maybe", status: 400, code: "wrong_type"},
		{name: "rejected after words", method: "GET", path: "/v1/rejected?after=x", status: 400, code: "wrong_type"},
		{name: "Last-Event-ID of words", method: "GET", path: "/v1/nodes/n1/events", header: []string{"Last-Event-ID: now"}, status: 400, code: "bad_last_event_id"},
		{name: "a negative Last-Event-ID", method: "GET", path: "/v1/nodes/n1/events", header: []string{"Last-Event-ID: -1"}, status: 400, code: "bad_last_event_id"},
		{name: "a batch that is JSON", method: "POST", path: nodes + ":batch", body: `{"id":"n2"}`, status: 415, code: "unsupported_media_type"},
		{name: "no route at all", method: "GET", path: "/", status: 404, code: "route_not_found"},
		{name: "no such route", method: "GET", path: "/v1/wishes", status: 404, code: "route_not_found"},
		{name: "a path with two slashes", method: "GET", path: "//v1/status", status: 404, code: "route_not_found"},
		{name: "a path with dots", method: "GET", path: "/v1/./status", status: 404, code: "route_not_found"},
		{name: "a method the route lacks", method: "DELETE", path: policies, status: 405, code: "method_not_allowed"},
		{name: "a method nobody has", method: "BREW", path: "/v1/status", status: 405, code: "method_not_allowed"},
		{name: "metrics that are not shown", method: "GET", path: "/metrics", status: 404, code: "route_not_found"},
	} {
		add("one", row)
	}

	p.refuses(t, table)
}

// refuses sends each bad request and wants its problem, and that the plane is
// afterwards as it was: nothing in the log after each, and after those of a route the same
// facts, and answers to good requests as before.
func (p *plane) refuses(t *testing.T, table []badInput) {
	t.Helper()
	good := func() string {
		return string(p.do("GET", "/v1/status?digest=true", "").body)
	}
	written, before := p.log.Len(), good()
	for len(table) > 0 {
		route, _, _ := strings.Cut(table[0].name, ": ")
		n := 1
		for n < len(table) && strings.HasPrefix(table[n].name, route+": ") {
			n++
		}
		t.Run(route, func(t *testing.T) {
			for _, row := range table[:n] {
				row.refused(t, p)
				require.Equal(t, written, p.log.Len(), "%s: nothing is written", row.name)
			}
			require.Equal(t, before, good(), "nothing is disturbed by these")
		})
		table = table[n:]
	}
}

func (row badInput) refused(t *testing.T, p *plane) {
	t.Helper()
	a := serve(t, p.Handler, row.method, row.path, row.body, row.header...)
	require.Equal(t, row.status, a.StatusCode, "%s: %s", row.name, a.body)
	got := a.problem(t)
	require.Equal(t, row.code, got.Code, "%s: %s", row.name, a.body)
	if row.status == http.StatusUnprocessableEntity {
		require.NotEmpty(t, got.Errors, "%s: %s", row.name, a.body)
		require.Equal(t, row.code, got.Errors[0].Code, row.name)
	}
	if row.status == http.StatusMethodNotAllowed {
		require.NotEmpty(t, a.Header.Get("Allow"), row.name)
	}
}

// Of two headers one would be left out, and what stands between might have read the other.
func TestWhatABodyIsIsSaidOnce(t *testing.T) {
	p := newPlane(t)
	for _, again := range []string{"Content-Type: text/plain", "Content-Encoding: gzip"} {
		a := p.do("PUT", nodes+"/n1", `{}`, "Content-Type: application/json", "Content-Encoding: identity", again)
		p.want(http.StatusUnsupportedMediaType, api.CodeUnsupportedMedia, a)
		require.Contains(t, string(a.body), "2 times")
	}
	require.Zero(t, p.log.Len())
}

// Every fault is told at once, and the first fault of shape decides.
func TestAllFaultsAreListed(t *testing.T) {
	p := newPlane(t)
	body := `{"slug":"UP","selector":{"source":"","destination":"ok"},"rules":[` + rule("drop", "tcp", "10.0.0.1/8", "fd00::/8", "") + `]}`
	got := p.do("POST", policies, body).problem(t)
	var codes []string
	for _, e := range got.Errors {
		require.NotEmpty(t, e.Pointer)
		codes = append(codes, e.Code)
	}
	require.Equal(t, 422, got.Status)
	require.Equal(t, codes[0], got.Code)
	require.Subset(t, codes, []string{"invalid_slug", "selector_syntax_error", "unknown_action", "cidr_not_masked"})

	got = p.do("POST", policies, strings.TrimSuffix(body, "}")+`,"colour":1}`).problem(t)
	require.Equal(t, 400, got.Status)
	require.Equal(t, "unknown_field", got.Code)
	require.Greater(t, len(got.Errors), 1)
}

func TestEveryRouteIsDescribed(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range api.Routes() {
		require.NotEmpty(t, r.ID)
		require.False(t, ids[r.ID], r.ID)
		ids[r.ID] = true
		require.NotEmpty(t, r.Summary, r.ID)
		require.NotEmpty(t, r.Tag, r.ID)
		require.NotEmpty(t, r.Answers, r.ID)
		require.Equal(t, r.Body == nil, r.BodyType == "", r.ID)
		for _, a := range r.Answers {
			spoken := []string{"application/json", "application/x-ndjson", "text/event-stream"}
			require.Equal(t, slices.Contains(spoken, a.MediaType), a.Body != nil, r.ID)
		}
	}
}

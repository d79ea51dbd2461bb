package api_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// good is a request that a route takes, in parts that can be spoilt one by one.
type good struct {
	route  api.Route
	path   map[string]string // by wildcard
	query  url.Values
	body   string
	header []string
}

func (g good) target() string {
	var old []string
	for name, value := range g.path {
		old = append(old, "{"+name+"}", value)
	}
	target := strings.NewReplacer(old...).Replace(g.route.Pattern)
	if len(g.query) > 0 {
		target += "?" + g.query.Encode()
	}
	return target
}

// goods is one good request a route, against a plane with node n1, policy made
// and admission policy admitted. The surface of existing clients is not among
// them: it answers in their form.
func goods(made resource.Policy, admitted string) []good {
	id, rev := made.ID.String(), made.HeadRevisionID.String()
	bodies := map[string]string{
		"createPolicy":     draft("fresh"),
		"revisePolicy":     `{"display_name":"Front","selector":{"source":"a","destination":"b"},"rules":` + webRules + `,"expected_revision_id":"` + rev + `"}`,
		"dryRunPolicy":     `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`,
		"dryRunNewPolicy":  `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`,
		"stageRevision":    `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`,
		"promoteRevision":  `{"waves":["role=db","role=web"],"min_applied_percent":90,"max_refused_percent":2}`,
		"openWave":         `{"wave":2}`,
		"abortRollout":     `{"reason":"not today"}`,
		"putNode":          `{"labels":{"role":"db"},"addresses":["10.0.0.9"]}`,
		"putNodes":         `{"id":"n9"}`,
		"releaseArtifacts": handmade("n9", 1),

		"createAdmissionPolicy": `{"name":"second","description":"d","policy_type":"User","tenant_id":"acme","user_id":"ana","service_type":"vm",` +
			`"label_selector":{"a":"b"},"priority":7,"enabled":true,"mode":"shadow","rego_code":"package a\n"}`,
		"replaceAdmissionPolicy": `{"service_type":"vm","priority":7,"rego_code":"package b\n"}`,
		"evaluate":               `{"request_payload":{},"user_id":"ana","tenant_id":"acme"}`,

		"archiveProject":  `{"archived":false}`,
		"putProjectQuota": `{"policies":10,"nodes":20,"label_sets":5,"bytes_per_day":1000000,"events_per_second":1000,"events_per_day":100000}`,
		"putPrincipal": `{"kind":"service","display_name":"Ops","tokens":[{"id":"` + rev + `","sha256":"` + strings.Repeat("0a", 32) + `","expires_at":"2027-01-01T00:00:00Z"}],` +
			`"spiffe_ids":["spiffe://edict.example/ops"],"oidc":[{"issuer":"https://issuer.example","subject":"ops"}]}`,
		"writeRelation": `{"relation":"plane#read"}`,
		"openSession":   `{"code":"none"}`,

		"registerNode": `{"project_id":"` + project + `","resource_handle":"web-1","bootstrap_token":"` + awaitedToken + `","nonce":"n-1","public_key":"` + agentKey + `",` +
			`"resource_id":"","requested_resource_id":"","token":"","hostname":""}`,
		"heartbeat":       `{"client_now":"2026-11-20T12:00:00.5Z","binary_version":"1","binary_checksum":"2"}`,
		"reportDrift":     `{"timestamp":"2026-11-20T12:00:00Z","corrections":[{"type":"policy_added","detail":"web"}]}`,
		"putStateReport":  `{"value":"up","workload_tag":"web"}`,
		"putCapabilities": `{"wireguard":"yes"}`,
		"putEndpoint":     `{"public_endpoint":"192.0.2.1:51820"}`,
		"postMetrics":     `{"a":1}`,
		"postLogs":        `{"a":1}`,
		"postAudit":       `{"a":1}`,

		"reportApplied": `{"version":1,"fingerprint":"` + fingerprint("[]") + `"}`,
	}
	var all []good
	for _, r := range api.Routes() {
		if strings.HasPrefix(r.ID, "alpha") {
			continue
		}
		g := good{
			route: r, path: map[string]string{"project": project, "policy": id, "revision": rev, "node": "n1", "admission": admitted, "principal": "ops", "kind": "vertex", "name": "flor"},
			query: url.Values{}, body: bodies[r.ID],
		}
		g.path["key"], g.path["seq"] = "net.up", "1"
		g.path["profile"] = "heap"
		if r.BodyType == "application/x-ndjson" {
			g.header = []string{"Content-Type: application/x-ndjson"}
		}
		for _, p := range r.Params {
			if p.Required {
				g.query.Set(p.Name, rev)
			}
			if p.Required && r.ID == "removeRelation" {
				g.query = url.Values{"relation": {"plane#read"}}
			}
			if p.Required && r.ID == "seqAt" {
				g.query = url.Values{"at": {"2026-11-20T12:00:00Z"}}
			}
			if p.Required && r.ID == "diffNode" {
				g.query = url.Values{"from": {"1"}}
			}
			if p.Required && r.ID == "compactLog" {
				g.query = url.Values{"seq": {"1"}}
			}
			if p.Required && r.ID == "explainFlow" {
				g.query = url.Values{"direction": {"egress"}, "peer": {"10.0.0.1"}, "protocol": {"tcp"}, "port": {"443"}}
			}
		}
		all = append(all, g)
	}
	return all
}

// spoilt is a route's good request with one thing wrong.
func (g good) spoilt(name string, status int, code string, spoil func(g *good)) badInput {
	bad := g
	bad.path, bad.query, bad.header = map[string]string{}, url.Values{}, slices.Clone(g.header)
	for k, v := range g.path {
		bad.path[k] = v
	}
	for k, v := range g.query {
		bad.query[k] = v
	}
	spoil(&bad)
	return badInput{
		name: g.route.ID + ": " + name, method: g.route.Method, path: bad.target(), body: bad.body,
		header: bad.header, status: status, code: code,
	}
}

func (g good) badPaths() []badInput {
	var table []badInput
	with := func(name, value string, status int, code string) {
		if strings.Contains(g.route.Pattern, "{"+name+"}") {
			table = append(table, g.spoilt(name+" "+value, status, code, func(g *good) { g.path[name] = value }))
		}
	}
	for _, name := range []string{"project", "policy", "revision"} {
		for _, v := range []string{"web", "00000000-0000-0000-0000-000000000000", "%7B" + nowhere + "%7D", strings.ReplaceAll(nowhere, "-", ""), nowhere + "0", "*", "%3E", "%00"} {
			with(name, v, 422, "invalid_uuid")
		}
	}
	for _, v := range []string{"a.b", "a*", "*", "%3E", "a%3E", "a%20b", "%20", "%2E", "%2E%2E", "a%2Fb", "A", "-a", "a-", "%C3%A9", "%00", "a%0Ab", strings.Repeat("a", 64)} {
		with("node", v, 422, "invalid_node_id")
	}
	for _, v := range []string{"a.b", "*", "%3E", "a%2Fb", "A", "-a", "%00", strings.Repeat("a", 64)} {
		with("principal", v, 422, "invalid_principal_id")
	}
	if g.route.ID == "getPrincipal" || g.route.ID == "deletePrincipal" {
		with("principal", "ghost", 404, "principal_not_found")
	}
	with("policy", nowhere, 404, "policy_not_found")
	for _, v := range []string{nowhere, "-", "%2E%2E", "%00", "a%2Fb", strings.Repeat("a", 64)} {
		with("admission", v, 404, "policy_not_found")
	}
	with("revision", nowhere, 404, "revision_not_visible")
	missing := "node_not_found"
	switch g.route.ID {
	case "getRelease":
		missing = "release_not_found"
	case "withdrawArtifact":
		missing = "artifact_not_found"
	}
	if g.route.Method != "PUT" {
		with("node", "ghost", 404, missing)
	}
	for _, name := range []string{"kind", "name"} {
		for _, v := range []string{"a.b", "*", "A", "a%2Fb", "%00", strings.Repeat("a", 64)} {
			with(name, v, 422, "invalid_artifact_name")
		}
		with(name, "ghost", 404, missing)
	}
	switch {
	case strings.Contains(g.route.Pattern, "{policy}"):
		with("project", other, 404, "policy_not_found")
	case strings.Contains(g.route.Pattern, "{node}") && g.route.Method != "PUT":
		with("project", other, 404, missing)
	case g.route.ID == "putNode":
		with("project", other, 409, "node_id_taken")
	}
	return table
}

func (g good) badParams() []badInput {
	var table []badInput
	for _, p := range g.route.Params {
		bad := func(value string, status int, code string) {
			table = append(table, g.spoilt(fmt.Sprintf("%s %.40q", p.Name, value), status, code, func(g *good) {
				if p.In == "header" {
					g.header = append(g.header, p.Name+": "+value)
					return
				}
				g.query.Set(p.Name, value)
			}))
		}
		var values []string
		status, code := 400, "wrong_type"
		switch {
		case p.Name == "Last-Event-ID":
			values, code = []string{"now", "-1", "+1", "1.5", "1e3", "0x1", "1 2", "\u0661", "1,2"}, "bad_last_event_id"
		case p.Name == "If-Match":
			values, code = []string{"x", `""`}, "bad_header"
		case p.Name == "relation":
			values, status, code = []string{"", "plane", "plane#owner", "policy:web#read", "node:a.b#agent", "plane:x#admin", "project:" + nowhere + "#agent"}, 422, "invalid_relation"
		case p.Name == "explain":
			values = []string{"some", "FULL"}
		case p.Name == "policy_type":
			values, status, code = []string{"Root", "*"}, 422, "unknown_level"
		case p.Name == "cursor":
			values, code = []string{"!", "cDo", "bjo", "cjo", "AAAA", "cDp4\n", strings.Repeat("x", 5000)}, "bad_cursor"
		case p.Name == "label_selector":
			values, status, code = []string{"a==", ",", "a in", "a in ()", "!", "a b", "é=1"}, 422, "selector_syntax_error"
		case p.Name == "from", p.Name == "to", p.Name == "at" && p.Schema.Format == "":
			values = []string{"x", "-1", "1.5", "yesterday", "2026-01-01"}
			bad("18446744073709551615", 400, "not_yet")
			bad("2126-01-01T00:00:00Z", 400, "not_yet")
		case p.Schema.Format == "uuid":
			values, status, code = []string{"x", strings.ToUpper(nowhere) + "0", "{" + nowhere + "}"}, 422, "invalid_uuid"
			table = append(table, g.spoilt("no "+p.Name, 422, "required", func(g *good) { g.query.Del(p.Name) }))
		case p.Schema.Type == "integer":
			values = []string{"x", "-1", "1.5", "1e3", "18446744073709551616", " 1", "0x10"}
			switch {
			case p.Name == "port":
				bad("0", 422, "port_out_of_range")
				bad("65536", 422, "port_out_of_range")
			case p.Schema.Minimum != nil && *p.Schema.Minimum == 1:
				values = append(values, "0")
			}
		case p.Schema.Type == "boolean":
			values = []string{"maybe", "2", "yes please"}
		case p.Schema.Pattern == "^[ -~]*$":
			values, code = []string{"a\x01b", "\x7f", "é", strings.Repeat("k", 257)}, "bad_header"
		}
		for _, v := range values {
			bad(v, status, code)
		}
	}
	return append(table, g.spoilt("a correlation id of two lines", 400, "bad_header", func(g *good) {
		g.header = append(g.header, "X-Correlation-Id: a\tb")
	}))
}

func (g good) badMethods(taken []string) []badInput {
	var table []badInput
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
		if slices.Contains(taken, m) {
			continue
		}
		row := g.spoilt("method "+m, 405, "method_not_allowed", func(*good) {})
		row.method = m
		table = append(table, row)
	}
	return table
}

func (g good) badBodies(t *testing.T) []badInput {
	if g.route.BodyType != "application/json" {
		return nil
	}
	var table []badInput
	for _, d := range documents() {
		if g.route.Lenient && d.code == "unknown_field" {
			continue
		}
		table = append(table, g.spoilt(d.name, d.status, d.code, func(g *good) {
			g.body, g.header = d.body, append(g.header, d.header...)
		}))
	}
	for cut := 1; cut < len(g.body); cut += 29 {
		table = append(table, g.spoilt(fmt.Sprintf("the first %d bytes", cut), 400, "malformed_json", func(g *good) { g.body = g.body[:cut] }))
	}
	var doc any
	require.NoError(t, json.Unmarshal([]byte(g.body), &doc))
	spoilDocument("", doc, func(what, code string) {
		if g.route.Lenient && (code == "unknown_field" || strings.HasSuffix(what, "is <nil>")) || open(g.route) && code == "wrong_type" {
			return // agents may say more than is read, and nothing
		}
		b, err := json.Marshal(doc)
		require.NoError(t, err)
		body := strings.NewReplacer(`,"~twice":`, `,`, `"~twice":`, ``).Replace(string(b))
		if code == "duplicate_key" {
			body = twice(string(b))
		}
		table = append(table, g.spoilt(what, 400, code, func(g *good) { g.body = body }))
	})
	return table
}

// open reports whether a route takes any document.
func open(r api.Route) bool { return r.ID == "putCapabilities" || r.ID == "putEndpoint" }

// spoilDocument calls try with each value of doc replaced by one of another
// type, each object with a member too many, and each with one said twice.
func spoilDocument(at string, v any, try func(what, code string)) {
	switch v := v.(type) {
	case map[string]any:
		within := func(member string) bool { return strings.HasSuffix(at, member) }
		if !within("/labels") && !within("/label_selector") && !within("/request_payload") { // where any key is one
			v["colour"] = "red"
			try("an unknown field in "+at, "unknown_field")
			delete(v, "colour")
		}
		for _, k := range slices.Sorted(mapKeys(v)) {
			was := v[k]
			v["~twice"] = map[string]any{k: was}
			try("twice "+at+"/"+k, "duplicate_key")
			delete(v, "~twice")
			for _, wrong := range []any{7, "x", true, nil, []any{}, map[string]any{}} {
				if sameKind(was, wrong) || wrong == nil && k == "expected_revision_id" {
					continue
				}
				v[k] = wrong
				try(fmt.Sprintf("%s/%s is %T", at, k, wrong), "wrong_type")
			}
			v[k] = was
			spoilDocument(at+"/"+k, was, try)
		}
	case []any:
		was := v[0]
		v[0] = 7
		try(at+"/0 is a number", "wrong_type")
		v[0] = was
		spoilDocument(at+"/0", was, try)
	}
}

func mapKeys(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func sameKind(a, b any) bool {
	kind := func(v any) string {
		switch v.(type) {
		case int, float64:
			return "number"
		}
		return fmt.Sprintf("%T", v)
	}
	return kind(a) == kind(b)
}

// twice turns the member "~twice":{k:v} into a second k:v.
func twice(body string) string {
	before, rest, _ := strings.Cut(body, `"~twice":{`)
	depth, inString := 1, false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\' && inString:
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return before + rest[:i] + rest[i+1:]
			}
		}
	}
	return body
}

// Whatever is wrong with a request of any route is answered with its code, and
// changes nothing.
func TestEveryRouteRefusesWhatIsBad(t *testing.T) {
	gen.Unraced()
	p := newPlane(t, func(d *api.Deps) { d.Decisions = decisionsOf(t, 3) })
	p.put("n1", `{"labels":{"role":"web"},"addresses":["10.0.0.1"]}`)
	made := p.create("web")
	p.principal("ops")
	p.awaits(awaited)
	require.Equal(t, 1, p.release(handmade("n1", 1)).Applied)
	all := goods(made, p.admit(t, admissionDraft(t, "first", "Global", 1, specified("{}"))))
	taken := map[string][]string{}
	for _, g := range all {
		taken[g.route.Pattern] = append(taken[g.route.Pattern], g.route.Method)
	}
	var table []badInput
	for _, g := range all {
		table = append(table, g.badPaths()...)
		table = append(table, g.badParams()...)
		if methods, first := taken[g.route.Pattern]; first {
			table = append(table, g.badMethods(methods)...)
			delete(taken, g.route.Pattern)
		}
		table = append(table, g.badBodies(t)...)
	}
	t.Logf("%d bad requests", len(table))
	p.refuses(t, thinned(table))

	// The same requests, not spoilt, are good: deletions last, streams aside.
	slices.SortStableFunc(all, deletionsLast)
	for _, g := range all {
		if g.route.ID == "metrics" || streamed(g.route) || g.route.ID == "beginSignIn" || g.route.ID == "endSignIn" { // of a plane with an issuer: newSignedIn
			continue
		}
		a := p.do(g.route.Method, g.target(), g.body, g.header...)
		require.Less(t, a.StatusCode, 300, "%s: %s", g.route.ID, a.body)
	}
}

var badAll = flag.Bool("bad.all", false, "TestEveryRouteRefusesWhatIsBad sends all of its bad requests, not every third")

// thinned leaves every third request, and the first of each kind of fault of a route. Each
// route is spoilt in the same ways, so that what is left out of one is sent to others.
func thinned(table []badInput) (left []badInput) {
	known := map[string]bool{}
	for i, row := range table {
		route, _, _ := strings.Cut(row.name, ": ")
		kind := route + row.method + row.code
		if i%3 == 0 || !known[kind] || *badAll {
			left = append(left, row)
		}
		known[kind] = true
	}
	return left
}

// deletionsLast has what is deleted be there for the other requests, and a node for
// the deletions of its agent.
func deletionsLast(a, b good) int {
	rank := func(g good) int { return btoi(g.route.Method == "DELETE") + btoi(g.route.ID == "deleteNode") }
	return rank(a) - rank(b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A line of a batch that is bad is refused by its number; the others count.
func TestABatchRefusesBadLinesOneByOne(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/theirs", `{}`))
	var body strings.Builder
	var want []string
	for i, row := range []struct{ line, code string }{
		{`{"id":`, "malformed_json"},
		{`nonsense`, "malformed_json"},
		{"\xff", "malformed_json"},
		{`{"id":"a"}{"id":"b"}`, "malformed_json"},
		{`[]`, "wrong_type"},
		{`{"id":7}`, "wrong_type"},
		{`{"id":"a","id":"a"}`, "duplicate_key"},
		{`{"id":"a","labels":{"x":"1","x":"2"}}`, "duplicate_key"},
		{`{"id":"a","colour":"red"}`, "unknown_field"},
		{`{}`, "required"},
		{`{"id":""}`, "invalid_node_id"},
		{`{"id":"a.b"}`, "invalid_node_id"},
		{`{"id":"*"}`, "invalid_node_id"},
		{`{"id":">"}`, "invalid_node_id"},
		{`{"id":"a b"}`, "invalid_node_id"},
		{`{"id":"` + strings.Repeat("a", 64) + `"}`, "invalid_node_id"},
		{`{"id":"a","labels":{"-":""}}`, "invalid_label_key"},
		{`{"id":"a","labels":{"x":"a b"}}`, "invalid_label_value"},
		{`{"id":"a","addresses":["10.0.0.0/8"]}`, "invalid_address"},
		{`{"id":"a","addresses":["fe80::1%eth0"]}`, "invalid_address"},
		{`{"id":"theirs"}`, "node_id_taken"},
		{strings.Repeat("x", 70_000), "body_too_large"},
	} {
		body.WriteString(row.line + "\n")
		want = append(want, fmt.Sprintf("%d %s", i+1, row.code))
	}
	written := p.log.Len()
	got := p.batch(body.String())
	var refused []string
	for _, r := range got.Rejected {
		require.NotEmpty(t, r.Detail)
		refused = append(refused, fmt.Sprintf("%d %s", r.Line, r.Code))
	}
	require.Equal(t, want, refused)
	require.Equal(t, written, p.log.Len(), "nothing is written")
	require.Equal(t, 1, p.batch(body.String()+`{"id":"a"}`).Applied, "the good line among them counts")
}

// A plane that cannot write, or does not know the log's head, says so on every
// route that would need it, and on no other.
func TestEveryRouteSaysWhatThePlaneCannot(t *testing.T) {
	gen.Unraced()
	var full error
	decided := decisionsOf(t, 3)
	p := newPlane(t, impatient, func(d *api.Deps) {
		d.Writable = func() error { return full }
		d.Decisions = decided
	})
	p.put("n1", `{}`)
	made := p.create("web")
	p.principal("ops")
	p.awaits(awaited)
	require.Equal(t, 1, p.release(handmade("n1", 1)).Applied)
	admitted := p.admit(t, admissionDraft(t, "first", "Global", 1, specified("{}")))
	written := p.log.Len()
	needs := func(g good, code string) bool { return slices.Contains(g.route.Problems, code) }
	send := func(g good) answer { return p.do(g.route.Method, g.target(), g.body, g.header...) }

	full = errors.New("0 bytes left")
	for _, g := range goods(made, admitted) {
		if needs(g, "storage_low") {
			p.want(http.StatusInsufficientStorage, "storage_low", send(g))
		}
	}
	full = nil

	p.log.Fail(errDown)
	decided.down = errDown
	for _, g := range goods(made, admitted) {
		if !needs(g, "log_unavailable") {
			continue
		}
		if !needs(g, "storage_low") { // a read of what is there needs no log
			g.path["policy"], g.path["node"], g.path["admission"], g.path["principal"] = nowhere, "ghost", nowhere, "ghost"
		}
		switch g.route.ID {
		case "countNodes", "countProjectNodes": // of the past alone is the log read
			g.query = url.Values{"at": {"1"}}
		case "listPolicies": // and of a name that is not known
			g.query = url.Values{"slug": {"nobody"}}
		}
		p.want(http.StatusServiceUnavailable, "log_unavailable", send(g))
	}
	require.Equal(t, written, p.log.Len(), "nothing is written")

	// A disk that is full holds up the fold and the log, too.
	full = errors.New("0 bytes left")
	for _, down := range []error{nil, errDown} {
		p.log.Fail(nil)
		p.log.Hold()
		_, _, err := p.log.Publish(t.Context(), streams.Append{Event: policy.NodeRemoved{ID: uuid.New(), Project: uuid.MustParse(project), Node: "n2"}})
		require.NoError(t, err)
		p.log.Fail(down)
		for _, g := range goods(made, admitted) {
			if needs(g, "storage_low") {
				g.path["policy"], g.path["node"], g.path["admission"], g.path["principal"] = nowhere, "ghost", nowhere, "ghost"
				p.want(http.StatusInsufficientStorage, "storage_low", send(g))
			}
		}
	}
}

// streamed reports whether a good request of a route is answered for as long as the client
// likes.
func streamed(r api.Route) bool { return r.Answers[0].MediaType == "text/event-stream" }

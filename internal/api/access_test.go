package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// firstID is the first that a plane in a test makes.
const firstID = "01900000-0000-7000-8000-000000000001"

// roles are the principals of the matrix and their relations. P and N stand for
// the policy and the node that every request is about.
var roles = map[string][]string{
	"admin":          {"plane#admin"},
	"reader":         {"plane#read"},
	"operator":       {"project:" + project + "#operator"},
	"manager":        {"project:" + project + "#operator", "project:" + project + "#manage"},
	"no-operator":    {"project:" + project + "#manage"},
	"editor":         {"project:" + project + "#edit"},
	"viewer":         {"project:" + project + "#read"},
	"one-policy":     {"policy:P#read"},
	"one-managed":    {"policy:P#manage", "project:" + project + "#operator"},
	"agent":          {"node:" + project + "/n1#agent"},
	"other-agent":    {"node:" + project + "/n2#agent"},
	"foreign":        {"project:" + other + "#operator", "project:" + other + "#manage"},
	"no-relations":   {},
	"no-credentials": nil,
	"wrong-token":    nil,
	"expired":        {"plane#admin"},
}

// cells say what becomes of a role's request, by what the route needs, as the
// OpenAPI document has it. Whom a row does not name, "others" stands for; whoever
// has no credentials is always 401, and the administrator always passes.
var cells = map[string]map[string]string{
	"nothing":     {"others": "pass", "no-credentials": "pass", "wrong-token": "pass", "expired": "pass"},
	"a principal": {"others": "pass"},
	"policy#read of what is listed": {
		"others": "404", "operator": "pass", "manager": "pass", "no-operator": "pass", "editor": "pass", "viewer": "pass", "one-policy": "pass", "one-managed": "pass",
	},
	"policy#read": {
		"others": "404", "manager": "pass", "no-operator": "pass", "editor": "pass", "viewer": "pass", "one-policy": "pass", "one-managed": "pass",
	},
	"policy#edit": {
		"others": "404", "manager": "pass", "no-operator": "pass", "editor": "pass", "viewer": "403", "one-policy": "403", "one-managed": "pass",
	},
	"policy#manage and project#operator": {
		"others": "404", "manager": "pass", "no-operator": "403", "editor": "403", "viewer": "403", "one-policy": "403", "one-managed": "pass",
	},
	"project#operator or project#read": {
		"others": "404", "operator": "pass", "manager": "pass", "no-operator": "pass", "editor": "pass", "viewer": "pass", "one-managed": "pass",
	},
	"project#operator": {
		"others": "404", "operator": "pass", "manager": "pass", "no-operator": "403", "editor": "403", "viewer": "403", "one-managed": "pass",
	},
	"node#agent or project#operator": {
		"others": "404", "operator": "pass", "manager": "pass", "one-managed": "pass", "agent": "pass", "other-agent": "403",
	},
	"node#agent": {
		"others": "404", "operator": "403", "manager": "403", "one-managed": "403", "agent": "pass", "other-agent": "403",
	},
	"plane#read":  {"others": "403", "reader": "pass"},
	"plane#admin": {"others": "403"},

	"plane#read, or to be an author of what is shown":            {"others": "pass", "agent": "403", "other-agent": "403"},
	"plane#admin, tenant#admin of its tenant, or to be its user": {"others": "pass", "agent": "403", "other-agent": "403"},
}

// ofNoPolicy are cells of the routes that name a project and no policy yet:
// who has one policy sees as much of the project as its other relations show.
var ofNoPolicy = map[string]string{
	"createPolicy one-policy": "404", "createPolicy one-managed": "403", "createPolicy operator": "403",
	"dryRunNewPolicy one-policy": "404", "dryRunNewPolicy one-managed": "404",
}

func cell(id, need, role string) string {
	if want, ok := ofNoPolicy[id+" "+role]; ok {
		return want
	}
	if id == "createAdmissionPolicy" {
		need = "plane#admin" // what is made here is Global
	}
	row := cells[need]
	if want, ok := row[role]; ok {
		return want
	}
	switch role {
	case "no-credentials", "wrong-token", "expired":
		return "401"
	case "admin":
		return "pass"
	}
	return row["others"]
}

// guarded is a plane that knows its principals from a file, and their tokens.
func guarded(t testing.TB, relations map[string][]string, set ...func(*api.Deps)) (p *plane, tokens map[string]string) {
	t.Helper()
	file := access.File{}
	tokens = map[string]string{"wrong-token": "edt_nobody"}
	for name, list := range relations {
		if list == nil {
			continue
		}
		e := &access.Entry{Principal: policy.Principal{Kind: policy.Person}}
		if strings.Contains(name, "agent") {
			e.Principal.Kind = policy.Agent
		}
		for _, text := range list {
			r, err := policy.ParseRelation(strings.Replace(text, "policy:P", "policy:"+firstID, 1))
			require.NoError(t, err)
			e.Relations = append(e.Relations, r)
		}
		var expires time.Time
		if name == "expired" {
			expires = epoch
		}
		text, kept := access.NewToken(uuid.New(), expires)
		tokens[name], e.Principal.Tokens = text, []policy.Token{kept}
		file[policy.PrincipalID(name)] = e
	}
	return newPlane(t, append(set, func(d *api.Deps) {
		d.Access = access.NewRegistry(d.Model.(access.Model), access.Options{File: file, Clock: d.Clock})
	})...), tokens
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// needsOf reads what each operation needs out of the document.
func needsOf(t *testing.T) map[string]string {
	t.Helper()
	b, err := api.Describe().Encode()
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			ID    string `json:"operationId"`
			Needs string `json:"x-needs"`
		}
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	out := map[string]string{}
	for _, item := range doc.Paths {
		for _, op := range item {
			out[op.ID] = op.Needs
		}
	}
	return out
}

// Every cell of the matrix: what each operation of the document answers each
// role, and that whoever is denied has written nothing.
func TestEveryRouteAsksEveryRoleForWhatItNeeds(t *testing.T) {
	gen.Unraced()
	needs := needsOf(t)
	require.Len(t, needs, len(api.Routes()))
	asserted := 0
	for role := range roles {
		t.Run(role, func(t *testing.T) {
			asserted += matrixRow(t, role, needs)
		})
	}
	t.Logf("%d cells", asserted)
	require.Equal(t, len(roles)*len(needs), asserted)
}

func matrixRow(t *testing.T, role string, needs map[string]string) (asserted int) {
	p, tokens := guarded(t, map[string][]string{"admin": roles["admin"], role: roles[role]})
	world := bearer(tokens["admin"])
	head := into[resource.Policy](t, p.do("POST", policies, draft("web"), world))
	require.Equal(t, firstID, head.ID.String())
	for _, n := range []string{"n1", "n2"} {
		p.want(http.StatusCreated, "", p.do("PUT", nodes+"/"+n, `{}`, world))
	}
	p.want(http.StatusOK, "", p.do("PUT", "/v1/access/principals/ops", `{"kind":"service"}`, world))
	p.awaits(awaited, world)
	all := goods(head, "none")
	for _, r := range api.Routes() {
		if strings.HasPrefix(r.ID, "alpha") {
			all = append(all, good{route: r, path: map[string]string{"admission": "none"}})
		}
	}
	slices.SortStableFunc(all, deletionsLast)
	for _, g := range all {
		id, header := g.route.ID, g.header
		if token := tokens[role]; token != "" {
			header = append(header, bearer(token))
		}
		want, written := cell(id, needs[id], role), p.log.Len()
		if streamed(g.route) && id != "followDecisions" && want == "pass" {
			p.opens(t, g.target(), tokens[role])
			asserted++
			continue
		}
		a := p.do(g.route.Method, g.target(), g.body, header...)
		got := "pass"
		switch code := codeOf(a); {
		case a.StatusCode == 401, code == "forbidden", a.StatusCode == 403 && strings.HasPrefix(id, "alpha"):
			got = a.Status[:3]
		case slices.Contains([]string{"policy_not_found", "node_not_found", "project_not_found"}, code) && !strings.Contains(g.route.Pattern, "{admission}"):
			got = "404"
		}
		require.Equal(t, want, got, "%s by %s, which needs %s: %s", id, role, needs[id], a.body)
		if want != "pass" {
			require.Equal(t, written, p.log.Len(), "%s by %s wrote nothing", id, role)
			require.Equal(t, want == "401", a.Header.Get("WWW-Authenticate") != "")
		}
		asserted++
	}
	return asserted
}

func codeOf(a answer) string {
	var pr resource.Problem
	if a.StatusCode < 400 || json.Unmarshal(a.body, &pr) != nil {
		return ""
	}
	return pr.Code
}

// opens asks for a stream and hangs up.
func (p *plane) opens(t *testing.T, target, token string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("GET", target, nil).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	api.New(p.deps).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
}

func TestNoRouteLacksANeed(t *testing.T) {
	for _, r := range api.Routes() {
		require.NotEqual(t, access.Undeclared, r.Needs, "%s: say in the route table what it needs", r.ID)
	}
	require.Equal(t, access.Forbid, access.NewPrincipal("root", policy.Person, policy.Relation{Kind: policy.ObjectPlane, Name: "admin"}).Decide(access.Undeclared, access.Object{}))
}

func TestWhatIsHiddenLooksLikeNothing(t *testing.T) {
	p, tokens := guarded(t, roles)
	head := into[resource.Policy](t, p.do("POST", policies, draft("web"), bearer(tokens["admin"])))
	there := p.do("GET", policies+"/"+head.ID.String(), "", bearer(tokens["foreign"]))
	not := p.do("GET", policies+"/"+nowhere, "", bearer(tokens["foreign"]))
	p.want(404, "policy_not_found", there)
	p.want(404, "policy_not_found", not)
	mask := func(a answer) string {
		pr := a.problem(t)
		return strings.NewReplacer(head.ID.String(), "…", nowhere, "…", pr.CorrelationID, "…").Replace(string(a.body))
	}
	require.Equal(t, mask(not), mask(there))
	named := p.do("GET", "/v1/projects/shop/nodes", "", bearer(tokens["foreign"]))
	p.want(404, "project_not_found", named)
	require.Contains(t, named.problem(t).Detail, `no project "shop"`, "what was asked for is named, and no UUID of zeros")
	for _, n := range []string{"n1", "ghost"} {
		p.want(403, "forbidden", p.do("GET", "/v1/nodes/"+n+"/state", "", bearer(tokens["other-agent"])))
	}
}

func TestAListShowsWhatItsReaderMayRead(t *testing.T) {
	relations := map[string][]string{"admin": roles["admin"], "viewer": roles["viewer"]}
	const third = "01900000-0000-7000-8000-000000000007" // ids count up, three a policy
	relations["one-policy"] = []string{"policy:" + third + "#read"}
	p, tokens := guarded(t, relations)
	for _, slug := range []string{"a", "b", "c", "d"} {
		p.want(http.StatusCreated, "", p.do("POST", policies, draft(slug), bearer(tokens["admin"])))
	}
	list := func(who, query string) (slugs []string) {
		page := into[resource.Page[resource.Policy]](t, p.do("GET", policies+query, "", bearer(tokens[who])))
		for _, it := range page.Items {
			slugs = append(slugs, it.Slug)
		}
		return slugs
	}
	require.Equal(t, []string{"a", "b", "c", "d"}, list("viewer", ""))
	require.Equal(t, []string{"a", "b"}, list("viewer", "?limit=2"))
	require.Equal(t, []string{"c"}, list("one-policy", ""))
	require.Equal(t, []string{"c"}, list("one-policy", "?limit=1"))
}

func TestWhatIsWrittenSaysWhoWroteIt(t *testing.T) {
	p, tokens := guarded(t, roles)
	a := p.do("POST", policies, draft("web"), bearer(tokens["manager"]), "X-Edict-Principal: somebody-else", "X-Correlation-Id: change-7")
	require.Equal(t, "manager", into[resource.Policy](t, a).Head.CreatedBy, "a name that is claimed counts for nothing")
	one := p.do("PUT", nodes+"/n1", `{}`, bearer(tokens["operator"]))
	p.want(http.StatusCreated, "", one)
	many := p.do("POST", nodes+":batch", `{"id":"n2"}`, bearer(tokens["operator"]), "Content-Type: application/x-ndjson")
	p.want(http.StatusOK, "", many)
	p.want(http.StatusNoContent, "", p.do("DELETE", nodes+"/n1", "", bearer(tokens["admin"]), "X-Correlation-Id: change-8"))
	p.want(http.StatusOK, "", p.do("POST", "/v1/access/principals/ana/relations", `{"relation":"plane#read"}`, bearer(tokens["admin"]), "X-Correlation-Id: change-9"))
	p.log.store("edict.log."+project+".node.n1", []byte("{}"))                // a producer's, who names nobody
	made := func(a answer) string { return a.Header.Get("X-Correlation-Id") } // for who gave none

	page := into[resource.Page[resource.AuditEntry]](t, p.do("GET", "/v1/audit?limit=4", "", bearer(tokens["reader"])))
	rest := into[resource.Page[resource.AuditEntry]](t, p.do("GET", "/v1/audit?after="+*page.NextCursor, "", bearer(tokens["reader"])))
	var got []string
	for _, e := range append(page.Items, rest.Items...) {
		got = append(got, strings.TrimSpace(e.Principal+" "+e.Type+" "+e.CorrelationID+" "+e.Detail+e.Rejected))
	}
	require.Equal(t, []string{
		"manager policy_revision_created change-7", "operator node_updated " + made(one), "operator node_updated " + made(many),
		"admin node_removed change-8", "admin relation_written change-9 plane#read", "invalid",
	}, got)
}

func TestARelationHoldsFromTheAnswerOn(t *testing.T) {
	p, tokens := guarded(t, roles)
	admin := bearer(tokens["admin"])
	text, kept := access.NewToken(uuid.New(), time.Time{})
	doc := string(policy.AppendPrincipal(nil, policy.Principal{Kind: policy.Person, Tokens: []policy.Token{kept}}))
	read := func() answer { return p.do("GET", policies, "", bearer(text)) }
	p.want(401, "unauthenticated", read())
	p.want(200, "", p.do("PUT", "/v1/access/principals/ana", doc, admin))
	unseen := read()
	p.want(404, "project_not_found", unseen)
	require.Equal(t, "there is no project "+project+" that you may see", unseen.problem(t).Detail, "it is not said to be lost")
	p.want(200, "", p.do("POST", "/v1/access/principals/ana/relations", `{"relation":"project:`+project+`#read"}`, admin))
	p.want(200, "", read())
	p.want(403, "forbidden", p.do("POST", policies, draft("web"), bearer(text)))
	p.want(204, "", p.do("DELETE", "/v1/access/principals/ana/relations?relation=project:"+project+"%23read", "", admin))
	p.want(404, "project_not_found", read())
	p.want(200, "", p.do("PUT", "/v1/access/principals/ana", `{"kind":"person"}`, admin, "If-Match: \"1\""))
	p.want(401, "unauthenticated", read())
	p.want(412, "precondition_failed", p.do("PUT", "/v1/access/principals/ana", doc, admin, "If-Match: \"9\""))
	p.want(412, "precondition_failed", p.do("PUT", "/v1/access/principals/ana", doc, admin, "If-None-Match: *"))
}

// What the file of principals gives, no request takes away, and none says that it did.
func TestWhatTheFileGivesIsNotTakenBack(t *testing.T) {
	p, tokens := guarded(t, roles)
	admin := bearer(tokens["admin"])
	take := func(query string) answer {
		return p.do("DELETE", "/v1/access/principals/admin/relations?relation=plane%23"+query, "", admin)
	}
	for _, query := range []string{"admin&dry_run", "admin"} {
		a := take(query)
		p.want(409, "given_by_file", a)
		require.Contains(t, string(a.body), "admin keeps plane#admin")
	}
	p.want(204, "", take("read"))
	p.want(200, "", p.do("POST", "/v1/access/principals/admin/relations", `{"relation":"plane#admin"}`, admin))
	p.want(409, "given_by_file", take("admin"))
	p.do("PUT", "/v1/access/principals/admin", `{"kind":"person"}`, admin)
	require.Empty(t, into[resource.Principal](t, p.do("GET", "/v1/access/principals/admin", "", admin)).Relations, "what the log gave is taken")
	p.want(409, "given_by_file", p.do("DELETE", "/v1/access/principals/admin", "", admin))
	p.want(200, "", p.do("GET", "/v1/access/principals/admin", "", admin))
}

// The fold compares in nanoseconds since 1970: what these do not reach would be another moment.
func TestABootstrapTokenEndsWhereTimeIsCounted(t *testing.T) {
	p := newPlane(t)
	for end, good := range map[string]bool{
		"2262-04-11T00:00:00Z": true, "2262-04-12T00:00:00Z": false, "9999-12-31T23:59:59Z": false, "1600-01-01T00:00:00Z": false,
	} {
		at, err := time.Parse(time.RFC3339, end)
		require.NoError(t, err)
		d := policy.Principal{Kind: policy.Agent, Bootstrap: []policy.Bootstrap{bootstrap{token: awaitedToken, project: project, expires: at}.kept()}}
		a := p.do("PUT", "/v1/access/principals/n1", string(policy.AppendPrincipal(nil, d)))
		if good {
			p.want(http.StatusOK, "", a)
			continue
		}
		p.want(http.StatusUnprocessableEntity, "invalid_time", a)
		require.Contains(t, string(a.body), `"/bootstrap/0/expires_at"`)
	}
}

// What the log has already may stay in a list, or nothing else of its principal could be changed:
// the token not revoked, above all.
func TestABootstrapTokenOfAnotherTimeIsRevoked(t *testing.T) {
	p := newPlane(t)
	kept := bootstrap{token: awaitedToken, project: project, expires: time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)}.kept()
	d := policy.Principal{Kind: policy.Agent, Bootstrap: []policy.Bootstrap{kept}}
	_, _, err := p.log.Publish(t.Context(), streams.Append{Event: policy.PrincipalUpdated{ID: uuid.New(), Principal: "n1", Document: d}})
	require.NoError(t, err)
	put := func() answer {
		return p.do("PUT", "/v1/access/principals/n1", string(policy.AppendPrincipal(nil, d)))
	}
	d.Bootstrap[0].State = policy.BootstrapRevoked
	p.want(http.StatusOK, "", put())
	d.Bootstrap[0].Expires = kept.Expires.Add(time.Hour)
	p.want(http.StatusUnprocessableEntity, "invalid_time", put())
}

// A bootstrap token registers one node: what another principal lists is refused, used or not.
func TestABootstrapTokenIsOnePrincipals(t *testing.T) {
	p, tokens := guarded(t, roles)
	put := func(id, token string) answer {
		d := policy.Principal{Kind: policy.Agent, Bootstrap: []policy.Bootstrap{bootstrap{token: token, project: project, expires: epoch.Add(time.Hour)}.kept()}}
		return p.do("PUT", "/v1/access/principals/"+id, string(policy.AppendPrincipal(nil, d)), bearer(tokens["admin"]))
	}
	p.want(200, "", put("node-b", awaitedToken))
	p.want(200, "", put("node-b", awaitedToken))
	for _, other := range []string{"node-a", "node-c"} {
		refused := put(other, awaitedToken)
		p.want(409, "credential_taken", refused)
		require.Contains(t, string(refused.body), "/bootstrap/0")
	}
	p.want(204, "", p.do("DELETE", "/v1/access/principals/node-b", "", bearer(tokens["admin"])))
	p.want(200, "", put("node-a", awaitedToken))
}

// Of two principals that list one credential neither is proved by it: whoever
// may write principals could become another otherwise, by saying his name last.
func TestACredentialOfTwoProvesNeither(t *testing.T) {
	p, tokens := guarded(t, roles)
	admin := bearer(tokens["admin"])
	text, kept := access.NewToken(uuid.New(), time.Time{})
	of := func(spiffe string, tokens ...policy.Token) policy.Principal {
		return policy.Principal{Kind: policy.Service, SPIFFE: []string{spiffe}, Tokens: tokens}
	}
	put := func(id string, d policy.Principal) answer {
		return p.do("PUT", "/v1/access/principals/"+id, string(policy.AppendPrincipal(nil, d)), admin)
	}
	self := func() answer { return p.do("GET", "/v1/access/self", "", bearer(text)) }
	p.want(200, "", put("ana", of("spiffe://a.test/one", kept)))
	p.want(200, "", put("ana", of("spiffe://a.test/one", kept)))
	p.want(200, "", self())
	p.want(409, "credential_taken", put("bob", of("spiffe://a.test/one")))
	p.want(409, "credential_taken", put("bob", of("spiffe://a.test/two", kept)))
	p.want(200, "", put("bob", of("spiffe://a.test/two")))

	// The log takes it from whoever does not ask the API, or asks two at once.
	_, err := p.deps.Log.PublishAll(t.Context(), []streams.Append{{Event: policy.PrincipalUpdated{
		ID: uuid.New(), Principal: "bob", CreatedBy: "root", Document: of("spiffe://a.test/two", kept),
	}}})
	require.NoError(t, err)
	p.want(401, "unauthenticated", self())
	p.want(200, "", put("bob", of("spiffe://a.test/two")))
	p.want(200, "", self())
}

// What is not known here yet may be known elsewhere: agents give up for good on
// 401 and 404.
func TestAWorkerThatLagsDoesNotDeny(t *testing.T) {
	p, tokens := guarded(t, roles, impatient)
	p.log.Hold()
	_, err := p.deps.Log.PublishAll(t.Context(), nil)
	require.NoError(t, err)
	p.log.store("edict.log.access.x", []byte("{}"))
	p.want(503, "projection_behind", p.do("GET", "/v1/nodes/n1/state", "", bearer("edt_made_elsewhere")))
	p.want(503, "projection_behind", p.do("GET", policies, "", bearer(tokens["no-relations"])))
	p.log.Release()
	p.want(401, "unauthenticated", p.do("GET", "/v1/nodes/n1/state", "", bearer("edt_made_elsewhere")))
}

func TestOneWhoAsksTooMuchWaitsForItselfAlone(t *testing.T) {
	p, tokens := guarded(t, roles, func(d *api.Deps) { d.Limiter = access.NewLimiter(1) })
	self := func(who string) answer { return p.do("GET", "/v1/access/self", "", bearer(tokens[who])) }
	p.want(200, "", self("viewer"))
	p.want(200, "", self("viewer"))
	a := self("viewer")
	for range 100 { // a slow machine earns a token now and then
		if a.StatusCode != 200 {
			break
		}
		a = self("viewer")
	}
	p.want(429, "too_many_requests", a)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	p.want(200, "", self("editor"))
	p.want(200, "", p.do("GET", "/livez", "", bearer(tokens["viewer"])))
}

func TestCredentialsThatAreNoneAreRefused(t *testing.T) {
	p, tokens := guarded(t, roles)
	for _, h := range []string{"Basic cm9vdDpyb290", "Bearer", "Bearer ", tokens["admin"], "Bearer " + tokens["admin"] + "x", "Bearer a.b.c", "Bearer \x7f"} {
		a := p.do("GET", "/v1/status", "", "Authorization: "+h)
		p.want(401, "unauthenticated", a)
		require.NotContains(t, string(a.body), tokens["admin"])
	}
	p.want(200, "", p.do("GET", "/v1/status", "", "Authorization: bearer "+tokens["admin"]))
	twice := p.do("GET", "/v1/status", "", bearer(tokens["admin"]), bearer(tokens["viewer"]))
	p.want(401, "unauthenticated", twice) // whose the request is, nobody knows
	require.Contains(t, string(twice.body), "2 times")
}

func TestOperatorsRoutesHaveAHandlerOfTheirOwn(t *testing.T) {
	p, tokens := guarded(t, roles)
	front, admin := api.Split(p.deps, "10.0.0.1:8443", "127.0.0.1:8081")
	other := map[string]string{"front": "127.0.0.1:8081, which --admin names", "admin": "10.0.0.1:8443, which --http names"}
	for _, r := range api.Routes() {
		if streamed(r) {
			continue
		}
		for at, h := range map[string]http.Handler{"front": front, "admin": admin} {
			q := httptest.NewRequest(r.Method, strings.NewReplacer("{profile}", "heap", "{", "", "}", "").Replace(r.Pattern), nil) // that of the CPU takes ten seconds
			q.Header.Set("Authorization", "Bearer "+tokens["admin"])
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			body, _ := io.ReadAll(w.Body)
			served := !strings.Contains(string(body), "this route is not at this address: ask at "+other[at])
			both := r.Needs == access.Anyone || r.Needs == access.Known || r.Needs == access.SeeAdmission || r.Needs == access.AuthorAdmission || r.Needs == access.Evaluate
			require.Equal(t, both || r.Admin() == (at == "admin"), served, "%s at %s: %d %s", r.ID, at, w.Code, body)
			require.NotContains(t, string(body), "there is no such route")
			require.NotEqual(t, http.StatusMethodNotAllowed, w.Code)
		}
	}
}

// Whatever is asked, who asks too much is told so, and a worker that may not know
// the asker yet does not say that there is none.
func TestEveryRouteMayAskForPatience(t *testing.T) {
	p, tokens := guarded(t, roles, impatient, func(d *api.Deps) { d.Limiter = access.NewLimiter(1) })
	world := bearer(tokens["manager"])
	for range 3 {
		p.do("GET", "/v1/access/self", "", world)
	}
	p.log.Hold()
	p.log.store("edict.log.access.x", []byte("{}"))
	for _, r := range api.Routes() {
		if r.Needs == access.Anyone {
			continue
		}
		target := strings.NewReplacer("{project}", project, "{node}", "n1", "{", "", "}", "").Replace(r.Pattern)
		require.Equal(t, 503, p.do(r.Method, target, "", bearer("edt_made_elsewhere")).StatusCode, r.ID)
		status, header := begun(p, r.Method, target, tokens["manager"])
		for status != 429 { // a slow machine earns a token now and then
			status, header = begun(p, r.Method, target, tokens["manager"])
		}
		require.NotEmpty(t, header.Get("Retry-After"))
	}
	p.log.Release()
}

// begun is how an answer begins. The request ends with that: an answer may be a
// stream without end.
func begun(p *plane, method, target, token string) (status int, header http.Header) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, target, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := &begins{httptest.NewRecorder(), cancel}
	p.Handler.ServeHTTP(w, r)
	return w.Code, w.Header()
}

// begins is told when an answer begins.
type begins struct {
	*httptest.ResponseRecorder
	begun func()
}

func (b *begins) WriteHeader(status int) {
	b.ResponseRecorder.WriteHeader(status)
	b.begun()
}

func (b *begins) Write(p []byte) (int, error) {
	b.begun()
	return b.ResponseRecorder.Write(p)
}

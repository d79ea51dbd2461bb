package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/gen"
)

// writers are principals, and which of the owned policies each may write and see.
var writers = map[string]struct {
	relations     []string
	writes, reads string // owned, joined by spaces
}{
	"admin":  {[]string{"plane#admin"}, "global acme beta tenants ana bob users", ""},
	"reader": {[]string{"plane#read"}, "", "global acme beta tenants ana bob users"},
	"acme":   {[]string{"tenant:acme#admin"}, "acme", ""},
	"both":   {[]string{"tenant:acme#admin", "tenant:beta corp#1#admin"}, "acme beta", ""},
	"ana":    {[]string{}, "ana", ""},
	"bob":    {[]string{"project:" + project + "#manage", "project:" + project + "#operator"}, "bob", ""},
	"agent":  {[]string{"node:" + project + "/n1#agent"}, "", ""},
}

// owned are policies of every level and owner.
var owned = map[string][]any{
	"global":  {"policy_type", "Global"},
	"acme":    {"policy_type", "Tenant", "tenant_id", "acme"},
	"beta":    {"policy_type", "Tenant", "tenant_id", "beta corp#1"},
	"tenants": {"policy_type", "Tenant"},
	"ana":     {"policy_type", "User", "user_id", "ana"},
	"bob":     {"policy_type", "User", "user_id", "bob", "tenant_id", "acme"},
	"users":   {"policy_type", "User"},
}

// TestEveryLevelHasItsAuthors asks every route that writes admission policies, for
// every principal and every owner.
func TestEveryLevelHasItsAuthors(t *testing.T) {
	gen.Unraced()
	relations := map[string][]string{}
	for name, w := range writers {
		relations[name] = w.relations
	}
	for who, w := range writers {
		t.Run(who, func(t *testing.T) {
			p, tokens := guarded(t, relations)
			admin, as := bearer(tokens["admin"]), bearer(tokens[who])
			for name, owner := range owned {
				may := strings.Contains(" "+w.writes+" ", " "+name+" ")
				sees := may || strings.Contains(" "+w.reads+" ", " "+name+" ")
				draft := func(of string, priority int) string {
					return body(t, append([]any{"name", of, "priority", priority, "rego_code", specified("{}")}, owner...)...)
				}
				check := func(route string, a answer, otherwise int) {
					t.Helper()
					if may {
						require.Less(t, a.StatusCode, 300, "%s of %s by %s: %s", route, name, who, a.body)
						return
					}
					require.Equal(t, otherwise, a.StatusCode, "%s of %s by %s: %s", route, name, who, a.body)
				}
				made := into[resource.AdmissionID](t, p.do("POST", admissions, draft("n", 1), admin))
				at, alpha := admissions+"/"+made.ID, alphas+"/"+made.ID
				hidden := 404
				if sees || who == "agent" {
					hidden = 403 // an agent has no part in this
				}
				n := p.log.Len()
				check("dry run", p.do("POST", admissions+"?dry_run", draft("other", 2), as), 403)
				check("create", p.do("POST", admissions, draft("other", 2), as), 403)
				change := body(t, "priority", 3, "rego_code", specified("{}"))
				check("replace", p.do("PUT", at, change, as), hidden)
				if !may {
					check("delete under a key", p.do("DELETE", at, "", as, "Idempotency-Key: k-"+name), hidden)
				}
				check("delete", p.do("DELETE", at, "", as), hidden)
				if !may {
					require.Equal(t, n, p.log.Len(), "nothing is written")
				}
				if may = who == "admin"; !may {
					n = p.log.Len()
					for _, a := range []answer{
						p.do("POST", alphas, alphaDraft(t, "x", 9, "package a", "policy_type", "USER"), as), p.do("POST", alphas, alphaDraft(t, "x", 9, "package a"), as),
						p.do("PATCH", alpha, `{"priority":8}`, as), p.do("DELETE", alpha, "", as),
					} {
						require.Equal(t, 403, a.StatusCode, "the older surface is the administrators'")
					}
					require.Equal(t, n, p.log.Len())
				}
			}
		})
	}
}

func TestWhoSeesWhichAdmissionPolicies(t *testing.T) {
	relations := map[string][]string{}
	for name, w := range writers {
		relations[name] = w.relations
	}
	p, tokens := guarded(t, relations)
	ids := map[string]string{}
	for name, owner := range owned {
		a := p.do("POST", admissions, body(t, append([]any{"name", name, "rego_code", specified("{}")}, owner...)...), bearer(tokens["admin"]))
		require.Equal(t, 201, a.StatusCode, "%s", a.body)
		ids[name] = into[resource.AdmissionID](t, a).ID
	}
	for who, w := range writers {
		as := bearer(tokens[who])
		list := p.do("GET", admissions, "", as)
		if who == "agent" {
			p.want(403, "forbidden", list)
			continue
		}
		var seen []string
		for _, x := range into[resource.Page[resource.AdmissionPolicy]](t, list).Items {
			seen = append(seen, x.Name)
		}
		require.ElementsMatch(t, strings.Fields(w.writes+" "+w.reads), seen, who)
		for name, id := range ids {
			a := p.do("GET", admissions+"/"+id, "", as)
			if strings.Contains(" "+w.writes+" "+w.reads+" ", " "+name+" ") {
				p.want(200, "", a)
			} else {
				p.want(404, "policy_not_found", a)
				require.Equal(t, fmt.Sprintf("there is no admission policy %s", id), a.problem(t).Detail, "as if it were not there")
			}
		}
	}
}

func TestTheAuditNamesAuthorsAndOwners(t *testing.T) {
	p, tokens := guarded(t, map[string][]string{"admin": {"plane#admin"}, "ana": {}})
	as, admin := bearer(tokens["ana"]), bearer(tokens["admin"])
	// A relation that is given counts at once.
	draft := body(t, "name", "quota", "policy_type", "Tenant", "tenant_id", "acme", "rego_code", specified("{}"))
	p.want(403, "forbidden", p.do("POST", admissions, draft, as))
	p.want(200, "", p.do("POST", "/v1/access/principals/ana/relations", `{"relation":"tenant:acme#admin"}`, admin))
	p.want(http.StatusCreated, "", p.do("POST", admissions, draft, as))
	var lines []string
	for _, e := range into[resource.Page[resource.AuditEntry]](t, p.do("GET", "/v1/audit", "", admin)).Items {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Principal, e.Type, e.Detail))
	}
	require.Equal(t, []string{"admin relation_written tenant:acme#admin", `ana admission_policy_updated Tenant "acme": quota`}, lines)
	p.want(204, "", p.do("DELETE", "/v1/access/principals/ana/relations?relation=tenant:acme%23admin", "", admin))
	p.want(403, "forbidden", p.do("POST", admissions, strings.Replace(draft, "quota", "more", 1), as))
}

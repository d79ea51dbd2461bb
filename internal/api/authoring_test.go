package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
)

// authoring are the five ways in which authors say what a policy should be, of
// policy "web", which is there.
func (p *plane) authoring(t testing.TB, id string) map[string]func(header ...string) answer {
	t.Helper()
	dry := `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`
	return map[string]func(header ...string) answer{
		"create":         func(h ...string) answer { return p.do("POST", policies, draft("fresh"), h...) },
		"revise":         func(h ...string) answer { return p.do("PATCH", policies+"/"+id, `{"display_name":"New"}`, h...) },
		"stage":          func(h ...string) answer { return p.do("POST", policies+"/"+id+"/stage", dry, h...) },
		"dry-run":        func(h ...string) answer { return p.do("POST", policies+"/"+id+"/dry-run", dry, h...) },
		"dry-run of new": func(h ...string) answer { return p.do("POST", policies+":dry-run", dry, h...) },
	}
}

func TestAuthorsAreJudgedByAdmissionPolicies(t *testing.T) {
	for _, c := range []struct {
		name, result string
		status       int
		code         string
	}{
		{"a rejection", `{"reject": true, "reason": "no more rules"}`, 403, "rejected_by_policy"},
		{"a conflict", `{"patch": {"rules": []}, "constraints": {"rules": {"minItems": 1}}}`, 409, "policy_conflict_error"},
		{"a failure", `{"reject": "yes"}`, 500, "policy_failed"},
		{"a patch that makes no policy", `{"patch": {"rules": []}}`, 409, "invalid_after_patch"},
		{"a patch of what a network policy does not have", `{"patch": {"billing_tag": "engineering"}}`, 409, "invalid_after_patch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlane(t)
			made := p.create("web")
			id := p.admit(t, admissionDraft(t, "guard", "Tenant", 1, specified(c.result), "tenant_id", project, "service_type", "network-policy"))
			n := p.log.Len()
			for way, send := range p.authoring(t, made.ID.String()) {
				a := send()
				p.want(c.status, c.code, a)
				require.Equal(t, &resource.Deciding{ID: id, Name: "guard"}, a.problem(t).Policy, way)
			}
			require.Equal(t, n, p.log.Len(), "nothing is written")
		})
	}
}

func TestWhoWritesIsToldToAdmissionPolicies(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	p.admit(t, admissionDraft(t, "guard", "User", 1, specified(`{"reject": true, "reason": concat(" ", [input.user_id, input.tenant_id])}`), "user_id", "ana"))
	for _, send := range p.authoring(t, made.ID.String()) {
		a := send("X-Edict-Principal: ana")
		p.want(403, "", a)
		require.Contains(t, a.problem(t).Detail, "ana "+project)
		require.Less(t, send("X-Edict-Principal: bob").StatusCode, 300)
	}
}

func TestAPatchOfAnAdmissionPolicyIsAppliedAndShown(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "guard", "Global", 1, specified(`{"patch": {"selector": {"destination": concat(",", [input.current_request_payload.selector.destination, "env=prod"])}}} if not endswith(input.current_request_payload.selector.destination, "env=prod")`)))
	made := p.create("web")
	require.Contains(t, made.Head.Selector.Destination, "env=prod")
	n := p.log.Len()
	dry := into[resource.DryRun](t, p.authoring(t, made.ID.String())["dry-run of new"]())
	require.Equal(t, "b,env=prod", dry.Admission.Selector.Destination)
	require.NotEmpty(t, dry.Admission.Rules)
	require.Equal(t, n, p.log.Len())
	a := p.do("PATCH", policies+"/"+made.ID.String(), `{"selector":{"source":"x","destination":"y"}}`)
	p.want(200, "", a)
	require.Equal(t, "y,env=prod", into[resource.Policy](t, a).Head.Selector.Destination)
}

func TestAuthorsAreToldOfABusyPlane(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{Limits: admission.Limits{
			Concurrency: 1, PolicyTimeout: time.Minute, ChainTimeout: 20 * time.Millisecond,
		}})
	})
	made := p.create("web")
	p.admit(t, admissionDraft(t, "slow", "Global", 1, specified(`{"patch": {"n": count([1 | some i in numbers.range(1, 10000); some j in numbers.range(1, 10000); i == j])}}`)))
	var wg sync.WaitGroup
	for _, send := range p.authoring(t, made.ID.String()) {
		for range 2 {
			wg.Go(func() { require.Contains(t, []int{500, 503}, send().StatusCode) })
		}
	}
	wg.Wait()
}

func TestADryRunIsJudgedAsTheChangeWouldBe(t *testing.T) {
	var decided []admission.Decision
	p := newPlane(t, func(d *api.Deps) {
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{Decided: func(x admission.Decision) { decided = append(decided, x) }})
	})
	made := p.create("web")
	p.admit(t, admissionDraft(t, "named", "Global", 1, specified(`{"patch": {"display_name": "Web", "tier": "admin"}}`)))
	ways := p.authoring(t, made.ID.String())
	for _, way := range []string{"dry-run", "dry-run of new"} {
		dry := into[resource.DryRun](t, ways[way]())
		require.Equal(t, "admin", dry.Admission.Tier, "%s: what a dry run does not have is no fault of the patch", way)
	}
	require.Equal(t, "web", decided[1].Request.Payload["slug"])
	require.NotContains(t, decided[2].Request.Payload, "slug")
	require.Equal(t, "Web", into[resource.Policy](t, ways["revise"]()).DisplayName)
	var dry []bool
	for _, d := range decided {
		dry = append(dry, d.DryRun)
	}
	require.Equal(t, []bool{false, true, true, false}, dry, "the decision log is told")
	p.want(404, "policy_not_found", p.do("POST", policies+"/00000000-0000-7000-8000-000000000001/dry-run", `{"selector":{"source":"a","destination":"b"},"rules":`+webRules+`}`))
}

// billing is the policy of the specification's own example.
const billing = `{"patch": {"billing_tag": "engineering"}, "constraints": {"billing_tag": {"mode": "immutable"}}}`

func TestAPolicyForEveryServiceStopsNoAuthor(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	made := p.create("web")
	id := p.admit(t, admissionDraft(t, "billing", "Global", 1, specified(billing)))
	p.admit(t, admissionDraft(t, "labels", "Global", 2, specified(`{"patch": {"metadata": {"labels": {"a": "b"}}, "selector": {"tenant": "x"}, "display_name": "Named"}}`)))
	ways := p.authoring(t, made.ID.String())
	for _, way := range slices.Sorted(maps.Keys(ways)) { // what is staged has no display name but the one it was revised to
		a := ways[way]()
		require.Less(t, a.StatusCode, 300, "%s: %s", way, a.body)
		var out struct {
			Admission resource.AdmissionNote `json:"admission"`
		}
		a.decode(t, &out)
		require.Equal(t, resource.AdmissionPatch{Policy: resource.Deciding{ID: id, Name: "billing"}, Dropped: []string{"/billing_tag"}}, out.Admission.Patches[0], way)
		require.Equal(t, []string{"/metadata", "/selector/tenant"}, out.Admission.Patches[1].Dropped, way)
		require.Contains(t, a.Header.Values("Warning")[0], `/billing_tag`)
	}
	require.Equal(t, "Named", into[resource.Policy](t, p.do("GET", policies+"/"+made.ID.String(), "")).DisplayName, "what a network policy has is patched all the same")
}

func TestAPolicyForEveryServiceIsNamedWhereItBreaksWhatANetworkPolicyHas(t *testing.T) {
	for name, result := range map[string]string{
		"a wrong value": `{"patch": {"billing_tag": "engineering", "rules": []}}`,
		"within a list": `{"patch": {"rules": [{"action": "allow", "tag": "x"}]}}`,
		"a wrong type":  `{"patch": {"display_name": 7}}`,
		"a value gone":  `{"patch": {"selector": null}}`,
		"of a selector": `{"patch": {"selector": {"source": "???"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			made := p.create("web")
			id := p.admit(t, admissionDraft(t, "guard", "Global", 1, specified(result)))
			p.admit(t, admissionDraft(t, "after", "User", 1, specified(`{"patch": {"billing_tag": "x"}}`)))
			n := p.log.Len()
			a := p.authoring(t, made.ID.String())["revise"]()
			p.want(409, "invalid_after_patch", a)
			require.Equal(t, &resource.Deciding{ID: id, Name: "guard"}, a.problem(t).Policy)
			require.Equal(t, n, p.log.Len())
		})
	}
}

func TestAnAuthorIsToldWhatAdmissionChanged(t *testing.T) {
	p := newPlane(t)
	id := p.admit(t, admissionDraft(t, "naming", "Global", 1, specified(`{"patch": {"display_name": upper(input.current_request_payload.slug)}}`)))
	a := p.do("POST", policies, draft("web"))
	p.want(201, "", a)
	made := into[resource.Policy](t, a)
	require.Equal(t, "WEB", made.DisplayName)
	require.Equal(t, `299 edict "admission policy naming changed /display_name"`, a.Header.Get("Warning"))
	require.Equal(t, "MODIFIED", made.Admission.Status)
	require.Equal(t, resource.Deciding{ID: id, Name: "naming"}, made.Admission.Patches[0].Policy)
	require.Equal(t, `"WEB"`, string(made.Admission.Patches[0].Changes[0].Value))
	require.Nil(t, into[resource.Policy](t, p.do("GET", policies+"/"+made.ID.String(), "")).Admission, "only whoever writes is told")

	n := p.log.Len()
	a = p.do("PATCH", policies+"/"+made.ID.String(), `{"display_name":"web"}`)
	p.want(200, "", a)
	require.Equal(t, made.HeadRevisionID, into[resource.Policy](t, a).HeadRevisionID, "what comes out is there already")
	require.NotEmpty(t, a.Header.Get("Warning"))
	require.Equal(t, n, p.log.Len(), "and is not written again")
}

// A dry run of a policy that does not exist says what admission policies say to its creation,
// which they may judge by its name.
func TestADryRunOfANewPolicyHasItsName(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "names", "Global", 1, "package dcm.policy.x\n\nresult := {\"reject\": true, \"reason\": \"not of this team\"} if not startswith(input.current_request_payload.slug, \"shop-\")\n"))
	at := "/v1/projects/" + project + "/policies:dry-run"
	draft := func(name string) string {
		return `{` + name + strings.TrimPrefix(stageBody("a"), `{`)
	}
	p.want(http.StatusOK, "", p.do("POST", at, draft(`"slug":"shop-web","display_name":"Web",`)))
	p.want(http.StatusForbidden, "rejected_by_policy", p.do("POST", at, draft(`"slug":"web",`)))
	p.want(http.StatusUnprocessableEntity, "invalid_slug", p.do("POST", at, draft(`"slug":"Shop web",`)))
	p.want(http.StatusOK, "", p.do("POST", at, stageBody("a"))) // nobody said what it would be called
}

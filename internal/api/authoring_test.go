package api_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
)

// authoring are the four ways in which authors say what a policy should be, of
// policy "web", which is there.
func (p *plane) authoring(t testing.TB, id string) map[string]func(header ...string) answer {
	t.Helper()
	dry := `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`
	return map[string]func(header ...string) answer{
		"create":         func(h ...string) answer { return p.do("POST", policies, draft("fresh"), h...) },
		"revise":         func(h ...string) answer { return p.do("PATCH", policies+"/"+id, `{"display_name":"New"}`, h...) },
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
		{"a patch that makes no policy", `{"patch": {"rules": []}}`, 500, "invalid_after_patch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlane(t)
			made := p.create("web")
			id := p.admit(t, admissionDraft(t, "guard", "Tenant", 1, specified(c.result), "tenant_id", project, "service_type", "network-policy"))
			n := p.log.Len()
			for way, send := range p.authoring(t, made.ID.String()) {
				a := send()
				p.want(c.status, c.code, a)
				if c.code != "invalid_after_patch" {
					require.Equal(t, &resource.Deciding{ID: id, Name: "guard"}, a.problem(t).Policy, way)
				}
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

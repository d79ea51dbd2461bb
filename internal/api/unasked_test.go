package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
)

func TestAPolicyThatCanNeverBeAskedIsCreatedWithAWarning(t *testing.T) {
	for _, c := range []struct{ name, rego, says string }{
		{"another package", "package vm.limits\n\nresult := {\"reject\": true}\n", "in package vm.limits the rule main is asked"},
		{"the package without a tail", "package dcm.policy\n\nresult := {\"reject\": true}\n", "asked in a package dcm.policy."},
		{"the entry point of the other dialect", "package dcm.policy.x\n\nmain := {\"rejected\": true}\n", "in package dcm.policy.x the rule result is asked"},
		{"no rule at all", "package a\n", "in package a the rule main is asked"},
		{"a rule of another name", "package dcm.policy.x\n\nresults := {\"reject\": true}\n", "it is never asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlane(t)
			draft := admissionDraft(t, "guard", "Global", 1, c.rego)
			for _, path := range []string{admissions + "?dry_run", admissions} {
				a := p.do("POST", path, draft)
				require.Less(t, a.StatusCode, 300, "%s", a.body)
				made := into[resource.AdmissionID](t, a)
				require.Len(t, made.Warnings, 1)
				require.Equal(t, "never_asked", made.Warnings[0].Code)
				require.Equal(t, "/rego_code", made.Warnings[0].Pointer)
				require.Contains(t, made.Warnings[0].Detail, c.says)
				require.Contains(t, a.Header.Get("Warning"), "299 edict")
			}
			id := p.only(t)
			require.Len(t, into[resource.Page[resource.AdmissionPolicy]](t, p.do("GET", admissions, "")).Items[0].Warnings, 1)
			require.Len(t, into[resource.AdmissionPolicy](t, p.do("GET", admissions+"/"+id, "")).Warnings, 1)
			a := p.do("POST", evaluating+"?explain=full", `{"request_payload":{}}`)
			p.want(200, "", a)
			require.Contains(t, string(a.body), c.says)

			a = p.do("PUT", admissions+"/"+id, body(t, "rego_code", specified("{}")))
			require.Empty(t, into[resource.AdmissionPolicy](t, a).Warnings)
			require.Empty(t, a.Header.Get("Warning"))
		})
	}
}

func TestAPolicyThatDoesNotCompileHasAWarningInTheList(t *testing.T) {
	p := newPlane(t)
	p.raw(t, "broken", "package a\n\nallow { true }\n")
	items := into[resource.Page[resource.AdmissionPolicy]](t, p.do("GET", admissions, "")).Items
	require.Equal(t, "does_not_compile", items[0].Warnings[0].Code)
	require.Contains(t, items[0].Warnings[0].Detail, "3:")
}

func TestExistingClientsSeeNoWarning(t *testing.T) {
	p := newPlane(t)
	a := p.do("POST", alphas, alphaDraft(t, "n", 1, "package test\n\nallow = true\n"))
	require.Equal(t, 201, a.StatusCode)
	require.Empty(t, a.Header.Get("Warning"))
	require.NotContains(t, string(a.body), "warning")
}

func TestAnEndlessPolicyIsShownAsSuspended(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{Limits: admission.Limits{PolicyTimeout: 5 * time.Millisecond, ChainTimeout: time.Minute}})
	})
	p.admit(t, admissionDraft(t, "endless", "User", 1, specified(`{"patch": {"n": count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i == j])}}`), "service_type", "bad"))
	for range 3 {
		p.want(500, "policy_timeout", p.do("POST", evaluating, `{"request_payload":{"service_type":"bad"}}`))
	}
	a := p.do("POST", evaluating, `{"request_payload":{"service_type":"bad"}}`)
	p.want(500, "policy_failed", a)
	require.Contains(t, a.problem(t).Detail, "3 times in a row")
	require.Equal(t, "suspended", into[resource.Page[resource.AdmissionPolicy]](t, p.do("GET", admissions, "")).Items[0].Warnings[0].Code)
	p.want(200, "", p.do("POST", evaluating, `{"request_payload":{"service_type":"good"}}`))
}

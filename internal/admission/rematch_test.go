package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// asks evaluates a request that says in its payload what it is.
func asks(t testing.TB, text string, policies ...Policy) (Result, error) {
	t.Helper()
	p := payload(t, text)
	service, _ := ServiceTypeOf(p)
	r := Request{Payload: p, ServiceType: service, Labels: LabelsOf(p)}
	return patient().Evaluate(t.Context(), compiled(t, policies...), r, Options{Explain: true})
}

func selecting(p Policy, service string, labels map[string]string) Policy {
	p.ServiceType, p.LabelSelector = service, labels
	return p
}

func TestALowerPolicyCannotChooseWhoJudges(t *testing.T) {
	guard := selecting(rego("dbguard", Global, 1, `{"reject": true, "reason": "no db"}`), "db", nil)
	prod := selecting(rego("prodguard", Global, 2, `{"reject": true, "reason": "no prod"}`), "", map[string]string{"env": "prod"})
	limit := selecting(rego("limit", Global, 3, `{"constraints": {"cpu": {"maximum": 4}}}`), "db", nil)
	byName := map[string]Policy{"dbguard": guard, "prodguard": prod, "limit": limit}
	for _, c := range []struct {
		name, patch string
		guards      []string
		want        string
	}{
		{"a service type patched", `{"service_type": "db"}`, []string{"dbguard"}, "rejected by dbguard: no db"},
		{"a label patched", `{"metadata": {"labels": {"env": "prod"}}}`, []string{"prodguard"}, "rejected by prodguard: no prod"},
		{"both, the first of them rejects", `{"service_type": "db", "metadata": {"labels": {"env": "prod"}}}`, []string{"dbguard", "prodguard"}, "rejected by dbguard: no db"},
		{"what the patch sets beside it is judged, too", `{"service_type": "db", "cpu": 32}`, []string{"limit"}, "conflict of limit"},
		{"a patch of something else", `{"cpu": 32}`, []string{"dbguard", "prodguard", "limit"}, "MODIFIED"},
		{"a service type that is no text", `{"service_type": ["db"]}`, []string{"dbguard"}, "failure of eve: invalid_decision patch: /service_type is an array, not a string; policies are matched by it"},
		{"a label that is no text", `{"metadata": {"labels": {"env": ["prod"]}}}`, []string{"prodguard"}, "failure of eve: invalid_decision patch: /metadata/labels/env is an array, not a string"},
		{"labels that are no object", `{"metadata": {"labels": ["prod"]}}`, nil, "failure of eve: invalid_decision patch: /metadata/labels is an array, not an object"},
		{"a service type that is taken away", `{"service_type": null}`, []string{"dbguard"}, "MODIFIED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policies := []Policy{selecting(rego("eve", User, 1, fmt.Sprintf(`{"patch": %s}`, c.patch)), "vm", nil)}
			for _, g := range c.guards {
				policies = append(policies, byName[g])
			}
			r, err := asks(t, `{"service_type": "vm"}`, policies...)
			require.Contains(t, said(t, r, err), c.want)
		})
	}
}

func TestAPolicyThatMatchesLaterSaysSo(t *testing.T) {
	r, err := asks(t, `{"service_type": "vm"}`,
		rego("eve", User, 1, `{"patch": {"service_type": "db"}}`),
		selecting(rego("guard", Global, 1, `{"patch": {"seen": input.current_request_payload.service_type}}`), "db", nil),
		selecting(rego("last", User, 2, `{"patch": {"last": true}}`), "db", nil))
	require.NoError(t, err)
	require.Equal(t, payload(t, `{"service_type": "db", "seen": "db", "last": true}`), r.Payload)
	after := map[string]string{}
	for _, s := range r.Steps {
		require.True(t, s.Matched, s.PolicyID)
		after[s.PolicyID] = s.MatchedAfter
	}
	require.Equal(t, map[string]string{"eve": "", "guard": "eve", "last": "eve"}, after)
}

func TestWhatComesLateMayBeLooserThanALowerLevel(t *testing.T) {
	eve := selecting(rego("eve", User, 1, `{"patch": {"service_type": "db"}, "constraints": {"cpu": {"maximum": 2}}}`), "vm", nil)
	r, err := asks(t, `{"service_type": "vm", "cpu": 1}`, eve, selecting(rego("guard", Global, 1, `{"constraints": {"cpu": {"maximum": 4}}}`), "db", nil))
	require.Equal(t, "MODIFIED", said(t, r, err)[:8], "a Global policy loosens nothing: a user was stricter")
	_, err = asks(t, `{"service_type": "vm", "cpu": 3}`, eve, selecting(rego("guard", Global, 1, `{"constraints": {"cpu": {"maximum": 4}}}`), "db", nil))
	require.ErrorContains(t, err, "cpu", "and both hold")
}

func TestAServiceTypeThatIsNotInThePayloadStays(t *testing.T) {
	r, err := patient().Evaluate(t.Context(), compiled(t,
		rego("any", Global, 2, `{"patch": {"service_type": "db"}}`),
		selecting(rego("guard", Global, 1, `{"reject": true}`), "db", nil)),
		Request{ServiceType: "network-policy", Payload: map[string]any{}}, Options{})
	require.NoError(t, err)
	require.Equal(t, Modified, r.Status)
}

// patchers draws a chain of policies that patch what policies are matched by, of every
// level and priority, and a request.
func patchers(rt *rapid.T) (policies []Policy, request string) {
	texts := rapid.SampledFrom([]string{"vm", "db", "web"})
	values := rapid.SampledFrom([]any{"vm", "db", "web", nil, 7, map[string]any{}})
	patches := rapid.Custom(func(t *rapid.T) map[string]any {
		patch := map[string]any{}
		if rapid.Bool().Draw(t, "patches the service type") {
			patch["service_type"] = values.Draw(t, "service type")
		}
		switch rapid.IntRange(0, 3).Draw(t, "patches labels") {
		case 0:
			patch["metadata"] = map[string]any{"labels": map[string]any{"env": values.Draw(t, "env")}}
		case 1:
			patch["metadata"] = values.Draw(t, "metadata")
		}
		return patch
	})
	selectors := rapid.Custom(func(t *rapid.T) map[string]string {
		m := map[string]string{}
		for _, k := range []string{"env", ServiceTypeLabel} {
			if rapid.IntRange(0, 2).Draw(t, k) == 0 {
				m[k] = texts.Draw(t, "is")
			}
		}
		return m
	})
	for i := range rapid.IntRange(1, 6).Draw(rt, "policies") {
		patch, err := json.Marshal(patches.Draw(rt, "patch"))
		require.NoError(rt, err)
		p := rego(fmt.Sprint("p", i), rapid.SampledFrom(Levels()).Draw(rt, "level"), i, fmt.Sprintf(`{"patch": %s}`, patch))
		if p.LabelSelector = selectors.Draw(rt, "selector"); rapid.Bool().Draw(rt, "typed") {
			p.ServiceType = texts.Draw(rt, "service")
		}
		policies = append(policies, p)
	}
	return policies, fmt.Sprintf(`{"service_type": %q, "metadata": {"labels": {"env": %q}}}`, texts.Draw(rt, "asked"), texts.Draw(rt, "in"))
}

func TestWhoeverMatchesWhatComesOutHasJudgedIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policies, request := patchers(rt)
		r, err := asks(t, request, policies...)
		if strings.HasSuffix(said(t, r, err), "; policies are matched by it") {
			return
		}
		require.NoError(rt, err)
		service, _ := ServiceTypeOf(r.Payload)
		out := Request{ServiceType: service, Labels: LabelsOf(r.Payload)}
		judged := map[string]Outcome{}
		for _, s := range r.Steps {
			judged[s.PolicyID] = s.Outcome
		}
		for _, p := range policies {
			if p.matches(&out) {
				require.Equal(rt, OutcomeApplied, judged[p.ID], "%+v matches %v", p, r.Payload)
			}
		}
	})
}

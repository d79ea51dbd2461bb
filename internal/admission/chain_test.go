package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patient is an engine for tests of meaning: a machine that is busy must not
// turn an answer into a timeout.
func patient() *Engine {
	return NewEngine(EngineOptions{Limits: Limits{PolicyTimeout: time.Minute, ChainTimeout: time.Minute}})
}

// rego is an enabled policy of the specification's dialect that answers with
// the decision given as Rego.
func rego(id string, l Level, priority int, result string) Policy {
	return Policy{
		ID: id, Name: id, Level: l, Priority: priority, Enabled: true,
		Rego: "package dcm.policy.x\n\nresult := " + result + "\n",
	}
}

func compiled(t testing.TB, policies ...Policy) *Snapshot {
	t.Helper()
	var list []*Compiled
	for _, p := range policies {
		c, err := Compile(t.Context(), p)
		require.NoError(t, err, p.Rego)
		list = append(list, c)
	}
	return NewSnapshot(uint64(len(list)), list...)
}

func payload(t testing.TB, text string) map[string]any {
	t.Helper()
	p, err := ParsePayload([]byte(text))
	require.NoError(t, err)
	return p
}

// evaluate runs policies on a payload and says in a line what came out.
func evaluate(t testing.TB, text string, policies ...Policy) string {
	t.Helper()
	r, err := patient().Evaluate(context.Background(), compiled(t, policies...), Request{Payload: payload(t, text), ServiceType: "vm", Labels: LabelsOf(payload(t, text))}, Options{})
	return said(t, r, err)
}

func said(t testing.TB, r Result, err error) string {
	t.Helper()
	var (
		rejection *Rejection
		conflict  *Conflict
		failure   *PolicyError
	)
	switch {
	case err == nil:
		out, err := json.Marshal(r.Payload)
		require.NoError(t, err)
		line := fmt.Sprintf("%s %s", r.Status, out)
		if r.ServiceProvider.Value != "" {
			line += " on " + r.ServiceProvider.Value
		}
		return line
	case errors.As(err, &rejection):
		return fmt.Sprintf("rejected by %s: %s", rejection.PolicyID, rejection.Reason)
	case errors.As(err, &conflict):
		line := "conflict of " + conflict.PolicyID
		for _, v := range conflict.Violations {
			line += fmt.Sprintf("; %s (%s)", v, v.PolicyID)
		}
		return line
	case errors.As(err, &failure):
		return fmt.Sprintf("failure of %s: %s %s: %s", failure.PolicyID, failure.Code, failure.Field, failure.Message)
	}
	return err.Error()
}

func TestAChain(t *testing.T) {
	for _, c := range []struct {
		name     string
		payload  string
		policies []Policy
		want     string
	}{
		{"without policies approves", `{"cpu":1}`, nil, `APPROVED {"cpu":1}`},
		{
			"rejects at once", `{}`,
			[]Policy{rego("a", Global, 1, `{"reject": true, "reason": "no"}`), rego("b", User, 1, `{"reject": true}`)},
			`rejected by a: no`,
		},
		{
			"goes by level and then by priority, the lower number first", `{"seen":""}`,
			[]Policy{
				rego("u1", User, 1, `{"patch": {"seen": concat("", [input.current_request_payload.seen, "u1 "])}}`),
				rego("t5", Tenant, 5, `{"patch": {"seen": concat("", [input.current_request_payload.seen, "t5 "])}}`),
				rego("t2", Tenant, 2, `{"patch": {"seen": concat("", [input.current_request_payload.seen, "t2 "])}}`),
				rego("g9", Global, 9, `{"patch": {"seen": concat("", [input.current_request_payload.seen, "g9 "])}}`),
			},
			`MODIFIED {"seen":"g9 t2 t5 u1 "}`,
		},
		{"takes no text that JSON cannot have", `{}`, []Policy{rego("a", Global, 1, `{"patch": {"x": base64.decode("/w==")}}`)}, `failure of a: invalid_decision patch.x: has a text that is not UTF-8, such as what base64.decode may give; JSON has none`},
		{"takes no keys that JSON would write as one", `{}`, []Policy{rego("a", Global, 1, `{"patch": {base64.decode("/w=="): 1, base64.decode("/g=="): 2}}`)}, `failure of a: invalid_decision patch: has a text that is not UTF-8, such as what base64.decode may give; JSON has none`},
		{
			"holds the specification's billing tag", `{}`,
			[]Policy{
				rego("g", Global, 1, `{"patch": {"billing_tag": "engineering"}, "constraints": {"billing_tag": {"mode": "immutable"}}}`),
				rego("u", User, 1, `{"patch": {"billing_tag": "marketing"}}`),
			},
			`conflict of u; billing_tag: value must be 'engineering' (g)`,
		},
		{
			"chooses a provider from what is allowed", `{}`,
			[]Policy{
				rego("g", Global, 1, `{"service_provider": {"constraints": {"allow_list": ["aws", "gcp"]}}}`),
				rego("u", User, 1, `{"service_provider": {"value": input.service_provider.constraints.allow_list[1]}}`),
			},
			`APPROVED {} on gcp`,
		},
		{
			"asks nobody twice, whatever labels a request gives itself", `{"n":1,"metadata":{"labels":{"":""}}}`,
			[]Policy{rego("a", Global, 1, `{"patch": {"n": input.current_request_payload.n + 1}}`)},
			`MODIFIED {"metadata":{"labels":{"":""}},"n":2}`,
		},
		{
			"has no opinion where a rule is undefined", `{}`,
			[]Policy{{ID: "a", Level: Global, Enabled: true, Rego: "package dcm.policy.x\n\nresult := {} if input.nothing"}},
			`APPROVED {}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, evaluate(t, c.payload, c.policies...))
		})
	}
}

func itoa(i int) string { return fmt.Sprint(i) }

package admission

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplainTellsEveryPolicysPart(t *testing.T) {
	other := rego("other", Global, 3, `{}`)
	other.ServiceType = "db"
	shadow := rego("shadow", Global, 4, `{"reject": true, "reason": "one day"}`)
	shadow.Mode = Shadow
	silent := rego("silent", Global, 5, `{"reject": true} if input.nothing`)
	s := compiled(t,
		rego("patches", Global, 1, `{"patch": {"a": 2, "b": {"c": null, "d": 1}}, "constraints": {"a": {"mode": "immutable"}}, "service_provider": {"value": "aws"}}`),
		other, shadow, silent,
		rego("rejects", User, 1, `{"reject": true, "reason": "no"}`),
		rego("later", User, 2, `{}`),
	)
	r, err := patient().Evaluate(t.Context(), s, Request{Payload: payload(t, `{"a":1,"b":{"c":3}}`), ServiceType: "vm"}, Options{Explain: true})
	require.Equal(t, "rejected by rejects: no", said(t, r, err))
	require.Nil(t, r.Payload)

	for i := range r.Steps {
		r.Steps[i].Took = 0
	}
	text, err := json.Marshal(r.Steps[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"policy_id":"patches","policy_name":"patches","level":"Global","priority":1,"mode":"enforce","matched":true,"outcome":"applied",
		"decision":{"patch":{"a":2,"b":{"c":null,"d":1}},"constraints":{"a":{"mode":"immutable"}},"service_provider":{"value":"aws"}},
		"constraints":{"a":{"const":2}},"provider":"aws","took_ns":0,
		"diff":[{"op":"replace","path":"/a","old":1,"value":2},{"op":"remove","path":"/b/c","old":3},{"op":"add","path":"/b/d","value":1}]}`, string(text))
	var lines []string
	for _, s := range r.Steps[1:] {
		lines = append(lines, s.PolicyID+" "+string(s.Outcome)+" "+s.Reason)
	}
	require.Equal(t, []string{
		`other unmatched the service type is "vm", not "db"`,
		`shadow rejected rejected by admission policy "shadow": one day`,
		`silent no_opinion `,
		`rejects rejected rejected by admission policy "rejects": no`,
		`later not_run the chain had ended`,
	}, lines)
}

// Who refuses at the end was shown as applied, beside the answer that named it.
func TestExplainBlamesWhoRefusesAtTheEnd(t *testing.T) {
	limits := rego("limits", Global, 1, `{"constraints": {"a": {"maximum": 4}}}`)
	for _, c := range []struct {
		name, payload string
		policies      []Policy
		want          []string
	}{
		{
			"what the request brought", `{"a":9}`,
			[]Policy{limits, rego("later", User, 1, `{"patch": {"b": 1}}`)},
			[]string{`limits rejected rejected by admission policy "limits": a: maximum: got 9, want 4`, "later applied "},
		},
		{
			"what a policy made", `{}`,
			[]Policy{rego("first", Global, 0, `{"patch": {"a": 9}}`), limits},
			[]string{"first applied ", `limits conflict admission policy "limits" is in conflict: a: maximum: got 9, want 4 (constraint of admission policy "limits")`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := asks(t, c.payload, c.policies...)
			require.Error(t, err)
			var lines []string
			for _, s := range r.Steps {
				lines = append(lines, s.PolicyID+" "+string(s.Outcome)+" "+s.Reason)
			}
			require.Equal(t, c.want, lines)
		})
	}
}

func TestAShadowPolicyChangesNothing(t *testing.T) {
	for _, decision := range []string{
		`{"reject": true}`, `{"patch": {"a": 9}}`, `{"constraints": {"a": {"const": 5}}}`, `{"service_provider": {"value": "x"}}`,
		`{"service_provider": {"constraints": {"allow_list": ["x"]}}}`, `7`,
	} {
		shadow := rego("shadow", Global, 2, decision)
		shadow.Mode = Shadow
		require.Equal(t, `MODIFIED {"a":2} on aws`, evaluate(t, `{"a":1}`,
			rego("first", Global, 1, `{"constraints": {"a": {"minimum": 1}}, "service_provider": {"constraints": {"allow_list": ["aws", "x"]}}}`),
			shadow,
			rego("last", User, 1, `{"patch": {"a": 2}, "service_provider": {"value": "aws"}} if count(input.constraints.a) == 1`),
		), decision)
	}
}

func TestAShadowPolicySeesTheChainAsItWasAtItsTurn(t *testing.T) {
	shadow := rego("shadow", Global, 2, `{"patch": {"a": 9}}`)
	shadow.Mode = Shadow
	s := compiled(t, rego("before", Global, 1, `{"constraints": {"a": {"minimum": 1}}}`), shadow, rego("after", User, 1, `{"constraints": {"a": {"maximum": 5}}}`))
	r, err := patient().Evaluate(t.Context(), s, Request{Payload: payload(t, `{"a":1}`)}, Options{Explain: true})
	require.NoError(t, err)
	require.Equal(t, OutcomeApplied, r.Steps[1].Outcome, r.Steps[1].Reason)
}

func TestAPolicyCarriesItsTests(t *testing.T) {
	p := rego("p", User, 1, "{\"reject\": true, \"reason\": \"too big\"} if input.current_request_payload.cpu > 4\n\nresult := {\"patch\": {\"ok\": true}} if input.current_request_payload.cpu <= 4")
	p.ServiceType, p.UserID, p.Mode, p.Enabled = "vm", "ana", Shadow, false
	big, small := Request{Payload: payload(t, `{"cpu":5}`)}, Request{Payload: payload(t, `{"cpu":4}`)}
	p.Tests = []Test{
		{Name: "big", Request: big, Status: "rejected", Reason: "too big"},
		{Name: "small", Request: small, Status: "MODIFIED", Payload: payload(t, `{"cpu":4.0,"ok":true}`)},
		{Name: "wrong status", Request: big, Status: "APPROVED"},
		{Name: "wrong reason", Request: big, Status: "rejected", Reason: "too small"},
		{Name: "wrong payload", Request: small, Status: "modified", Payload: payload(t, `{"cpu":4}`)},
		{Name: "wrong provider", Request: small, Status: "modified", Provider: "aws"},
	}
	c, err := Compile(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, []TestResult{
		{"big", ""},
		{"small", ""},
		{"wrong status", `is rejected, not APPROVED: rejected by admission policy "p": too big`},
		{"wrong reason", `the refusal does not say "too small": rejected by admission policy "p": too big`},
		{"wrong payload", `the payload is {"cpu":4,"ok":true}, not {"cpu":4}`},
		{"wrong provider", `the provider is "", not "aws"`},
	}, patient().Test(t.Context(), c))
}

// TestTheDocumentedPoliciesCompile keeps docs/admission.md from showing what
// does not work.
func TestTheDocumentedPoliciesCompile(t *testing.T) {
	page, err := os.ReadFile("../../docs/admission.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```rego\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		c, err := Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: string(b[1])})
		require.NoError(t, err)
		require.NotNil(t, c.code.program.query, "it can have an opinion")
	}
	for _, d := range denied {
		if !strings.HasPrefix(d, "crypto.") && !strings.HasPrefix(d, "io.jwt") && !strings.Contains("http.* net.lookup_ip_addr opa.* rand.* uuid.rfc4122 time.now_ns providers.* trace rego.parse_module", d) {
			require.Contains(t, string(page), "`"+d+"`", "a function that no policy has, and no author is told")
		}
	}
}

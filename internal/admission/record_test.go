package admission

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// decided is a request and what policies made of it.
func decided(t *testing.T, text string, policies ...Policy) Decision {
	t.Helper()
	d := Decision{Request: Request{Payload: payload(t, text), ServiceType: "vm", UserID: "ana", TenantID: "acme"}}
	d.Request.Labels = LabelsOf(d.Request.Payload)
	d.Result, d.Err = patient().Evaluate(t.Context(), compiled(t, policies...), d.Request, Options{})
	return d
}

func masked(t *testing.T, r Record, pointers ...string) Record {
	t.Helper()
	m, err := ParseMask(pointers)
	require.NoError(t, err)
	m.Apply(&r)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	r, err = ReadRecord(text)
	require.NoError(t, err)
	return r
}

func TestARecordSaysWhatWasAskedAndWhatBecameOfIt(t *testing.T) {
	shadow := rego("shadow", Global, 1, `{"reject": true, "reason": "one day"}`)
	shadow.Mode = Shadow
	for _, tc := range []struct{ name, result, want, judged string }{
		{"approved", `{}`, `"outcome":"approved","service_provider":{"value":"","constraints":{}}`, "applied"},
		{
			"modified", `{"patch": {"b": 2.50}, "service_provider": {"value": "aws"}}`,
			`"outcome":"modified","result_payload":{"a":1.0,"b":2.50},"service_provider":{"value":"aws","constraints":{}}`, "applied",
		},
		{"rejected", `{"reject": true, "reason": "no"}`, `"outcome":"rejected","policy":{"id":"p","name":"p"},"reason":"no"`, "rejected"},
		{"an error", `1`, `"outcome":"error","policy":{"id":"p","name":"p"},"reason":"admission policy \"p\" failed: invalid_decision: result: is a number, not an object"`, "error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := NewRecord("w1", decided(t, `{"a":1.0}`, shadow, rego("p", User, 1, tc.result)))
			r.TookNS = 7
			text, err := json.Marshal(r)
			require.NoError(t, err)
			require.Equal(t, `{"decision_id":"","time":"0001-01-01T00:00:00Z","worker":"w1","snapshot_version":2,"service_type":"vm","user_id":"ana","tenant_id":"acme",`+
				`"request_payload":{"a":1.0},`+tc.want+`,"policies":[{"id":"p","name":"p","level":"User","version":2,"outcome":"`+tc.judged+`"}]`+
				`,"shadows":[{"id":"shadow","name":"shadow","level":"Global","version":2,"outcome":"rejected","reason":"rejected by admission policy \"shadow\": one day"}],"took_ns":7}`, string(text))
		})
	}
}

// Who writes to the log by hand may say anything of what is masked.
func TestARecordMaskedAtNoPointerIsNotWhole(t *testing.T) {
	for _, at := range []string{"", "/", "request_payload/a"} {
		r := Record{RequestPayload: map[string]any{}, Masked: []string{at}}
		_, whole := r.Request()
		require.False(t, whole, at)
	}
}

func TestARecordOfAConflictNamesThePolicy(t *testing.T) {
	r := NewRecord("", decided(t, `{"a":1}`, rego("p", User, 1, `{"constraints": {"a": {"const": 1}}}`), rego("q", User, 2, `{"patch": {"a": 2}}`)))
	require.Equal(t, "conflict", r.Outcome)
	require.Equal(t, &RecordedPolicy{"q", "q"}, r.Policy)
	require.Contains(t, r.Reason, `(constraint of admission policy "p")`)
	require.Nil(t, r.ServiceProvider)
}

func TestAMaskTakesOutWhatItNamesAndSaysSo(t *testing.T) {
	d := decided(t, `{"a":{"secret":"x","b":1},"list":[{"secret":"y"},2]}`, rego("p", User, 1, `{"patch": {"a": {"c": 3}}}`))
	r := masked(t, NewRecord("", d), "/request_payload/a/secret", "/request_payload/list/0/secret", "/request_payload/none", "/request_payload/list/7", "/user_id", "/reason")
	require.Equal(t, []string{"/request_payload/a/secret", "/result_payload/a/secret", "/request_payload/list/0/secret", "/result_payload/list/0/secret", "/user_id"}, r.Masked)
	require.Equal(t, payload(t, `{"a":{"b":1},"list":[{},2]}`), r.RequestPayload)
	require.Equal(t, payload(t, `{"a":{"b":1,"c":3},"list":[{},2]}`), r.ResultPayload)
	require.Empty(t, r.UserID)
	require.Equal(t, payload(t, `{"a":{"secret":"x","b":1},"list":[{"secret":"y"},2]}`), d.Request.Payload, "the request itself is whole")

	r = masked(t, NewRecord("", d), "/request_payload/list/0")
	require.Equal(t, payload(t, `{"a":{"secret":"x","b":1},"list":[null,2]}`), r.RequestPayload, "the others keep their places")
	r = masked(t, NewRecord("", d), "/request_payload", "/tenant_id", "/shadows")
	require.Nil(t, r.RequestPayload)
	require.Nil(t, r.ResultPayload)
	require.Empty(t, r.TenantID)
}

func TestAMaskThatNamesNothingOfARecordIsRefused(t *testing.T) {
	_, err := ParseMask([]string{"password", "/password", "/request_payload/~2", "/user_id/x", "", "/request_payload/x"})
	require.ErrorContains(t, err, `"password" is no JSON pointer`)
	require.ErrorContains(t, err, `"/password": a record can be masked at /request_payload, /result_payload, /user_id`)
	require.ErrorContains(t, err, `"/request_payload/~2"`)
	require.ErrorContains(t, err, `"/user_id/x"`)
	require.ErrorContains(t, err, `"" is no JSON pointer`)
	require.NotContains(t, err.Error(), "/request_payload/x")
}

func TestAReplayTellsWhatWouldChange(t *testing.T) {
	first := []Policy{rego("p", Global, 1, `{"patch": {"b": 1, "token": "t"}, "service_provider": {"value": "aws"}}`)}
	record := NewRecord("", decided(t, `{"a":1}`, first...))
	for _, tc := range []struct{ name, result, want string }{
		{"nothing", `{"patch": {"token": "t", "b": 1.0}, "service_provider": {"value": "aws"}}`, "false modified"},
		{"another payload", `{"patch": {"b": 2, "token": "t"}, "service_provider": {"value": "aws"}}`, "true modified /b"},
		{"another provider", `{"patch": {"b": 1, "token": "t"}, "service_provider": {"value": "gcp"}}`, "true modified"},
		{"no patch", `{"service_provider": {"value": "aws"}}`, "true approved /b /token"},
		{"a rejection", `{"reject": true}`, "true rejected"},
		{"a conflict", `{"patch": {"b": 1}, "constraints": {"b": {"const": 2}}}`, "true conflict"},
		{"an error", `{"patch": 1}`, "true error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, replay(t, record, rego("p", Global, 1, tc.result)))
		})
	}
	require.Equal(t, "true approved /b /token", replay(t, record), "without policies")
	result := masked(t, record, "/result_payload/token")
	require.Equal(t, "false modified", replay(t, result, rego("p", Global, 1, `{"patch": {"b": 1, "token": "u"}, "service_provider": {"value": "aws"}}`)), "what is masked is not compared")
	require.Equal(t, "something of the request is masked", replay(t, masked(t, record, "/request_payload/a"), first...))
	require.Equal(t, "something of the request is masked", replay(t, masked(t, record, "/user_id"), first...))
	busy := NewRecord("", Decision{Request: Request{Payload: payload(t, `{}`)}, Err: ErrBusy})
	require.Contains(t, replay(t, busy, first...), "it was not judged then")

	refused := NewRecord("", decided(t, `{"a":1}`, rego("p", Global, 1, `{"reject": true}`)))
	require.Equal(t, "false rejected", replay(t, refused, rego("p", Global, 1, `{"reject": true, "reason": "in other words"}`)))
	require.Equal(t, "true rejected", replay(t, refused, rego("q", Global, 1, `{"reject": true}`)), "by another policy")
}

func replay(t *testing.T, was Record, policies ...Policy) string {
	t.Helper()
	r, err := patient().Replay(t.Context(), compiled(t, policies...), was)
	require.NoError(t, err)
	if r.Unjudged != "" {
		require.False(t, r.Changed())
		return r.Unjudged
	}
	text := map[bool]string{true: "true ", false: "false "}[r.Changed()] + r.Now.Outcome
	for _, c := range r.Diff {
		text += " " + c.Path
	}
	return text
}

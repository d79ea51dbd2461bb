package compiler_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

func TestGoldenBytesOfOrderedPolicy(t *testing.T) {
	const ends = `"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":80,"to":80}`
	base := rule("allow tcp 10.0.0.0/8 10.1.0.0/16 80-80")
	with := func(edit func(*policy.Rule)) []policy.Rule {
		r := base
		edit(&r)
		return []policy.Rule{r}
	}
	cases := []struct {
		name    string
		rules   []policy.Rule
		payload string
	}{
		{"pass", with(func(r *policy.Rule) { r.Action = policy.Pass }), `[{` + ends + `,"action":"pass"}]`},
		{"sctp", with(func(r *policy.Rule) { r.Protocol = policy.SCTP }), `[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"sctp","ports":{"from":80,"to":80},"action":"allow"}]`},
		{
			"redirect with its proxy port",
			with(func(r *policy.Rule) { r.Action, r.ProxyPort = policy.Redirect, 10080 }),
			`[{` + ends + `,"action":"redirect","proxy_port":10080}]`,
		},
		{
			"a listener priority follows the proxy port",
			with(func(r *policy.Rule) { r.Action, r.ProxyPort, r.ListenerPriority = policy.Redirect, 10080, 101 }),
			`[{` + ends + `,"action":"redirect","proxy_port":10080,"listener_priority":101}]`,
		},
		{"auth required", with(func(r *policy.Rule) { r.Auth = policy.AuthRequired }), `[{` + ends + `,"action":"allow","auth":"required"}]`},
		{"auth disabled", with(func(r *policy.Rule) { r.Auth = policy.AuthDisabled }), `[{` + ends + `,"action":"allow","auth":"disabled"}]`},
		{
			"a source selector follows the action; the CIDR whose place it takes is left out",
			[]policy.Rule{{Action: policy.Allow, Protocol: policy.Any, SourceSelector: "env=qa,role=web", Destination: base.Destination}},
			`[{"destination_cidr":"10.1.0.0/16","protocol":"any","action":"allow","source_selector":"env=qa,role=web"}]`,
		},
		{
			"a destination selector",
			[]policy.Rule{{Action: policy.Deny, Protocol: policy.Any, Source: base.Source, DestinationSelector: "role in (cache,db)"}},
			`[{"source_cidr":"10.0.0.0/8","protocol":"any","action":"deny","destination_selector":"role in (cache,db)"}]`,
		},
		{"a direction alone", with(func(r *policy.Rule) { r.Direction = policy.Ingress }), `[{` + ends + `,"action":"allow","direction":"ingress"}]`},
		{
			"a direction is the last field, and the last that orders",
			[]policy.Rule{
				{Action: policy.Allow, Protocol: policy.Any, SourceSelector: "a", DestinationSelector: "b", Auth: policy.AuthRequired},
				{Action: policy.Allow, Protocol: policy.Any, SourceSelector: "a", DestinationSelector: "b", Auth: policy.AuthDisabled, Direction: policy.Ingress},
				{Action: policy.Allow, Protocol: policy.Any, SourceSelector: "a", DestinationSelector: "b", Auth: policy.AuthDisabled, Direction: policy.Egress},
			},
			`[{"protocol":"any","action":"allow","source_selector":"a","destination_selector":"b","auth":"disabled","direction":"egress"},` +
				`{"protocol":"any","action":"allow","source_selector":"a","destination_selector":"b","auth":"disabled","direction":"ingress"},` +
				`{"protocol":"any","action":"allow","source_selector":"a","destination_selector":"b","auth":"required"}]`,
		},
		{
			"every field at once, and the order of rules that differ in the new fields alone",
			[]policy.Rule{
				{Action: policy.Redirect, Protocol: policy.TCP, Ports: base.Ports, SourceSelector: "b", DestinationSelector: "c", ProxyPort: 9, ListenerPriority: 1, Auth: policy.AuthRequired},
				{Action: policy.Redirect, Protocol: policy.TCP, Ports: base.Ports, SourceSelector: "a", DestinationSelector: "d", ProxyPort: 10, ListenerPriority: 1},
				{Action: policy.Redirect, Protocol: policy.TCP, Ports: base.Ports, SourceSelector: "a", DestinationSelector: "c", ProxyPort: 10, ListenerPriority: 2},
				{Action: policy.Redirect, Protocol: policy.TCP, Ports: base.Ports, SourceSelector: "a", DestinationSelector: "c", ProxyPort: 10},
				{Action: policy.Redirect, Protocol: policy.TCP, Ports: base.Ports, SourceSelector: "a", DestinationSelector: "c", ProxyPort: 9, Auth: policy.AuthDisabled},
			},
			`[{"protocol":"tcp","ports":{"from":80,"to":80},"action":"redirect","source_selector":"a","destination_selector":"c","proxy_port":9,"auth":"disabled"},` +
				`{"protocol":"tcp","ports":{"from":80,"to":80},"action":"redirect","source_selector":"a","destination_selector":"c","proxy_port":10},` +
				`{"protocol":"tcp","ports":{"from":80,"to":80},"action":"redirect","source_selector":"a","destination_selector":"c","proxy_port":10,"listener_priority":2},` +
				`{"protocol":"tcp","ports":{"from":80,"to":80},"action":"redirect","source_selector":"a","destination_selector":"d","proxy_port":10,"listener_priority":1},` +
				`{"protocol":"tcp","ports":{"from":80,"to":80},"action":"redirect","source_selector":"b","destination_selector":"c","proxy_port":9,"listener_priority":1,"auth":"required"}]`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rs := compiler.Compile(c.rules)
			require.Equal(t, c.payload, string(rs.Payload))
			want := compiler.PlainRules{Payload: []byte("[]"), Fingerprint: compiler.Empty.Fingerprint, Omitted: len(c.rules)}
			require.Equal(t, want, compiler.Plain(rs.Payload, rs.Fingerprint))
		})
	}
}

// A node pulls its rows from a server that may send anything.
func TestPlainReadsWhatNoCompilerWrote(t *testing.T) {
	for _, payload := range []string{``, `[`, `["sourc"]`, `["desti"]`, `["destination_`, `[}{}]`} {
		compiler.Plain([]byte(payload), compiler.Fingerprint{})
	}
}

// The plain form of a payload is what compiling the plain rules alone gives, and
// the rest is counted.
func TestAPlainPayloadIsThatOfThePlainRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := anyRules(t)
		var some []policy.Rule
		for _, r := range all {
			if r.Plain() {
				some = append(some, r)
			}
		}
		whole, part := compiler.Compile(all), compiler.Compile(some)
		plain := compiler.Plain(whole.Payload, whole.Fingerprint)
		if !bytes.Equal(part.Payload, plain.Payload) || plain.Omitted != whole.Rules-part.Rules || plain.Fingerprint != part.Fingerprint {
			t.Fatalf("%s\nwant %s and %d\n got %s and %d", whole.Payload, part.Payload, whole.Rules-part.Rules, plain.Payload, plain.Omitted)
		}
	})
}

func TestAPlainMergeIsTheMergeOfThePlainRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := make([]compiler.Row, rapid.IntRange(0, 5).Draw(t, "rows"))
		plain, omitted := make([]compiler.Row, len(rows)), 0
		for i := range rows {
			all := anyRules(t)
			whole := compiler.Compile(all)
			part := compiler.Compile(slices.DeleteFunc(all, func(r policy.Rule) bool { return !r.Plain() }))
			rows[i], plain[i] = row(byte(i), string(whole.Payload)), row(byte(i), string(part.Payload))
			omitted += whole.Rules - part.Rules
		}
		want, wantOK := compiler.Merge(plain)
		got, left, ok := compiler.MergePlain(rows)
		require.Equal(t, want, got)
		require.Equal(t, omitted, left)
		require.Equal(t, wantOK, ok)
	})
}

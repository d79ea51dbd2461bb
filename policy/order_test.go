package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const orderedBody = `{"id":"0193b5a0-0000-7000-8000-000000000011","type":"policy_revision_created","project_id":"00000000-0000-4000-8000-000000000000",` +
	`"policy_id":"0193b5a0-0000-7000-8000-000000000012","slug":"mesh","revision":{"id":"0193b5a0-0000-7000-8000-000000000013","parent_id":null,` +
	`"selector":{"source":"env=qa","destination":"env=prod"},"tier":"admin","priority":0,"default_deny":false,"rules":[` +
	`{"action":"pass","protocol":"any","source_selector":"role=grafana","destination_selector":"role=artifacts"},` +
	`{"action":"redirect","protocol":"tcp","destination_cidr":"10.1.0.0/16","ports":{"from":80,"to":80},"source_selector":"env=qa","proxy_port":10080,"listener_priority":126,"auth":"required"},` +
	`{"action":"allow","protocol":"sctp","source_cidr":"fd00::/8","destination_cidr":"::/0","ports":{"from":1,"to":65535},"auth":"disabled"}],` +
	`"created_at":"2026-11-20T12:00:00Z","created_by":"ann","correlation_id":null}}`

func TestAnOrderedRevisionSurvivesItsBytes(t *testing.T) {
	e, err := Decode([]byte(orderedBody))
	require.NoError(t, err)
	require.Equal(t, orderedBody, string(Append(nil, e)))
	rev := e.(RevisionCreated).Revision
	require.Equal(t, Order{Tier: Admin, Priority: Priority{0, true}, NoDefaultDeny: true}, rev.Order)
	require.True(t, rev.Content().Extended())

	plain, err := Decode([]byte(revisionBody))
	require.NoError(t, err)
	require.False(t, plain.(RevisionCreated).Revision.Content().Extended(), "what an older binary reads")
	require.False(t, plain.(RevisionCreated).Revision.Order.Ordered())
}

func TestARuleOfOneDirectionIsNoPlainRule(t *testing.T) {
	body := strings.Replace(revisionBody, `"action":"allow",`, `"action":"allow","direction":"ingress",`, 1)
	require.NotEqual(t, revisionBody, body)
	e, err := Decode([]byte(body))
	require.NoError(t, err)
	content := e.(RevisionCreated).Revision.Content()
	require.False(t, content.Rules[0].Plain())
	require.True(t, content.Extended())
	require.Equal(t, 7, KindOf(e).Schema(e), "an older binary must not take it for a rule of both ends")
	ordered, err := Decode([]byte(orderedBody))
	require.NoError(t, err)
	require.Equal(t, 2, KindOf(ordered).Schema(ordered))
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		name     string
		order    Order
		ordered  bool
		tier     Tier
		priority uint32
	}{
		{"nothing set is a level of its own kind", Order{}, false, Normal, 1000},
		{"no default deny orders nothing", Order{NoDefaultDeny: true}, false, Normal, 1000},
		{"a tier alone has the default priority", Order{Tier: Baseline}, true, Baseline, 1000},
		{"a priority alone is in the normal tier", Order{Priority: Priority{7, true}}, true, Normal, 7},
		{"priority 0 is set", Order{Priority: Priority{0, true}}, true, Normal, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tier, priority := c.order.Level()
			require.Equal(t, c.ordered, c.order.Ordered())
			require.Equal(t, c.tier, tier)
			require.Equal(t, c.priority, priority)
		})
	}
}

func TestNullTakesAnOrderBack(t *testing.T) {
	p, err := DecodePatch([]byte(`{"tier":null,"priority":null,"default_deny":null}`))
	require.NoError(t, err)
	require.Equal(t, Tier(""), *p.Tier)
	require.Equal(t, Priority{}, *p.Priority)
	require.True(t, *p.DefaultDeny)
	p, err = DecodePatch([]byte(`{"default_deny":false,"priority":16777215}`))
	require.NoError(t, err)
	require.Nil(t, p.Tier)
	require.Equal(t, Priority{MaxPriority, true}, *p.Priority)
	require.False(t, *p.DefaultDeny)
}

func TestEveryFaultOfAnOrderedPolicyIsNamed(t *testing.T) {
	selector := `"selector":{"source":"a","destination":"b"}`
	draft := func(order, rules string) string {
		return `{"slug":"x",` + selector + order + `,"rules":[` + rules + `]}`
	}
	const (
		sides = `"source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"`
		fine  = `{"action":"allow","protocol":"any",` + sides + `}`
	)
	cases := []struct {
		name, body string
		faults     []string
	}{
		{"an unknown tier", draft(`,"tier":"top"`, fine), []string{"/tier unknown_tier"}},
		{"an unknown mode", draft(`,"mode":"shadow"`, fine), []string{"/mode unknown_mode"}},
		{"a tier that is no text", draft(`,"tier":1`, fine), []string{"/tier wrong_type"}},
		{"a priority beyond the last", draft(`,"priority":16777216`, fine), []string{"/priority priority_out_of_range"}},
		{"a negative priority", draft(`,"priority":-1`, fine), []string{"/priority priority_out_of_range"}},
		{"half a priority", draft(`,"priority":1.5`, fine), []string{"/priority wrong_type"}},
		{"a default deny that is no boolean", draft(`,"default_deny":"no"`, fine), []string{"/default_deny wrong_type"}},
		{
			"a selector and a CIDR on one side, both sides", draft("", `{"action":"allow","protocol":"any",`+sides+`,"source_selector":"a","destination_selector":"b"}`),
			[]string{"/rules/0/source_selector selector_and_cidr", "/rules/0/destination_selector selector_and_cidr"},
		},
		{"neither on either side", draft("", `{"action":"allow","protocol":"any"}`), []string{"/rules/0/source_cidr required", "/rules/0/destination_cidr required"}},
		{"a selector that cannot be read is no missing side", draft("", `{"action":"allow","protocol":"any","source_selector":"a=","destination_selector":"=b"}`), []string{"/rules/0/destination_selector selector_syntax_error"}},
		{"an empty selector", draft("", `{"action":"allow","protocol":"any","source_selector":"","destination_selector":"b"}`), []string{"/rules/0/source_selector selector_syntax_error"}},
		{
			"a proxy port, a listener priority and an auth where none belongs", draft("", fine+`,{"action":"deny","protocol":"any",`+sides+`,"proxy_port":80,"listener_priority":1,"auth":"required"}`),
			[]string{"/rules/1/proxy_port proxy_port_without_redirect", "/rules/1/listener_priority listener_priority_without_redirect", "/rules/1/auth auth_without_allow"},
		},
		{"auth on a pass", draft("", `{"action":"pass","protocol":"any",`+sides+`,"auth":"disabled"}`), []string{"/rules/0/auth auth_without_allow"}},
		{"a redirect to nowhere", draft("", `{"action":"redirect","protocol":"any",`+sides+`}`), []string{"/rules/0/proxy_port proxy_port_required"}},
		{"a redirect to port 0", draft("", `{"action":"redirect","protocol":"any",`+sides+`,"proxy_port":0}`), []string{"/rules/0/proxy_port port_out_of_range"}},
		{
			"listener priorities below and above", draft("", `{"action":"redirect","protocol":"any",`+sides+`,"proxy_port":1,"listener_priority":0},{"action":"redirect","protocol":"any",`+sides+`,"proxy_port":1,"listener_priority":127}`),
			[]string{"/rules/0/listener_priority listener_priority_out_of_range", "/rules/1/listener_priority listener_priority_out_of_range"},
		},
		{"an unknown auth", draft("", `{"action":"allow","protocol":"any",`+sides+`,"auth":"mutual"}`), []string{"/rules/0/auth unknown_auth"}},
		{"sctp without ports", draft("", `{"action":"allow","protocol":"sctp",`+sides+`}`), []string{"/rules/0/ports ports_required"}},
		{"ports on icmp", draft("", `{"action":"pass","protocol":"icmp",`+sides+`,"ports":{"from":8,"to":8}}`), []string{"/rules/0/ports ports_forbidden"}},
		{"an unknown action says nothing about what goes with it", draft("", `{"action":"proxy","protocol":"any",`+sides+`,"proxy_port":80}`), []string{"/rules/0/action unknown_action"}},
		{
			"an unknown direction, one that is no text, one that is null",
			draft("", `{"action":"log","protocol":"any",`+sides+`,"direction":"both"},{"action":"deny","protocol":"any",`+sides+`,"direction":1},{"action":"deny","protocol":"any",`+sides+`,"direction":null}`),
			[]string{"/rules/0/direction unknown_direction", "/rules/1/direction wrong_type", "/rules/2/direction wrong_type"},
		},
		{
			"all at once", draft(`,"tier":"x","priority":-2`, `{"action":"deny","protocol":"icmp",`+sides+`,"source_selector":"a","ports":{"from":1,"to":1},"proxy_port":80}`),
			[]string{"/tier unknown_tier", "/priority priority_out_of_range", "/rules/0/ports ports_forbidden", "/rules/0/source_selector selector_and_cidr", "/rules/0/proxy_port proxy_port_without_redirect"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeDraft([]byte(c.body))
			require.Equal(t, c.faults, faultsOf(err.(Violations)))
		})
	}
}

func TestAPassIntoNothingIsWarnedOf(t *testing.T) {
	warnings := func(order Order, actions ...Action) []string {
		c := Content{Order: order}
		for _, a := range actions {
			c.Rules = append(c.Rules, Rule{Action: a})
		}
		return faultsOf(c.Warnings())
	}
	require.Equal(t, []string{"/rules/1/action pass_into_nothing"}, warnings(Order{Tier: Baseline}, Allow, Pass))
	require.Empty(t, warnings(Order{Tier: Baseline}, Pass, Allow), "something is below")
	require.Empty(t, warnings(Order{Tier: Admin}, Pass))
	require.Empty(t, warnings(Order{}, Pass))
}

// Two spellings of the same tests are one selector of a rule, and its text reads
// back as itself.
func TestASelectorOfARuleHasOneSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyExpr(t)
		other := rapid.Permutation(append(e, e[0])).Draw(t, "other")
		require.Equal(t, e.Canonical(), Expr(other).Canonical())
		again, faults := ParseExpr(e.Canonical())
		require.Empty(t, faults)
		require.Equal(t, e.Canonical(), again.Canonical())
		labels := anyLabels(t)
		require.Equal(t, e.Matches(labels), again.Matches(labels))
	})
}

func FuzzOrderedRule(f *testing.F) {
	for _, s := range []string{`"source_selector":"a"`, `"auth":"required"`, `"direction":"egress"`, `"proxy_port":1e3`, `"listener_priority":126`, `"destination_selector":"a in (b)"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		body := `{"slug":"x","selector":{"source":"a","destination":"b"},"rules":[{"action":"redirect","protocol":"any","destination_cidr":"::/0",` + field + `}]}`
		d, err := DecodeDraft([]byte(body))
		if err != nil {
			return
		}
		if !json.Valid([]byte(body)) || d.Rules[0].ProxyPort == 0 || d.Rules[0].Source.IsValid() == (d.Rules[0].SourceSelector != "") {
			t.Fatalf("accepted: %s", body)
		}
		if text := string(AppendRules(nil, d.Rules)); strings.Contains(text, `\`) || !json.Valid([]byte(text)) {
			t.Fatalf("%s is written as %s", body, text)
		}
	})
}

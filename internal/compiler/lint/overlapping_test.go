package lint

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

func TestPoliciesOfOneProjectAreHeldAgainstEachOther(t *testing.T) {
	const any, web, low = `"any"`, `"tcp","ports":{"from":80,"to":80}`, `"tcp","ports":{"from":1,"to":1023}`
	const ten, narrow = "10.0.0.0/8", "10.1.0.0/16"
	peers := func(action, traffic string) string {
		return `{"action":"` + action + `","protocol":` + traffic + `,"source_selector":"x","destination_selector":"y"}`
	}
	more := func(rule, members string) string { return strings.TrimSuffix(rule, "}") + members + "}" }
	toward := func(direction, rule string) string { return more(rule, `,"direction":"`+direction+`"`) }
	to := func(port int, members, from, dest string) string {
		return more(line("redirect", from, dest, web), fmt.Sprintf(`,"proxy_port":%d%s`, port, members))
	}
	asks := func(auth, from, dest string) string {
		return more(line("allow", from, dest, web), fmt.Sprintf(`,"auth":%q`, auth))
	}
	for name, c := range map[string]struct{ order, rules, otherOrder, other, want string }{
		"an earlier tier shadows":                {`,"tier":"baseline"`, line("allow", narrow, ten, web), `,"tier":"admin"`, line("deny", ten, ten, any), "/rules/0 rule_shadowed"},
		"a lower priority goes first":            {`,"priority":9`, line("allow", narrow, ten, web), `,"priority":8`, line("deny", ten, ten, low), "/rules/0 rule_shadowed"},
		"what goes first shadows the other":      {`,"priority":1`, line("deny", ten, ten, any), `,"priority":8`, line("allow", ten, ten, web), "/rules/0 rule_shadows"},
		"narrower rules shadow nothing":          {`,"priority":9`, line("allow", ten, ten, web), `,"priority":8`, line("deny", narrow, ten, any), ""},
		"equal priority, different verdicts":     {``, line("allow", narrow, ten, web), ``, line("deny", ten, narrow, low), "/rules/0 equal_priority_overlap"},
		"equal priority, the deny hides all":     {``, line("allow", narrow, ten, web), ``, line("deny", ten, ten, any), "/rules/0 rule_shadowed"},
		"equal priority, the same verdict":       {``, line("allow", narrow, ten, web), ``, line("allow", ten, ten, any), ""},
		"equal indices of ordered policies meet": {`,"priority":4`, line("allow", narrow, ten, web), `,"priority":4`, line("deny", ten, narrow, low), "/rules/0 equal_priority_overlap"},
		"other indices do, too":                  {`,"priority":4`, line("log", ten, ten, any) + "," + line("allow", narrow, ten, web), `,"priority":4`, line("deny", ten, narrow, low), "/rules/1 equal_priority_overlap"},
		"and so does what goes before":           {`,"priority":4`, line("allow", narrow, ten, web), `,"priority":4`, line("log", ten, ten, any) + "," + line("deny", ten, narrow, low), "/rules/0 equal_priority_overlap"},
		"a plain policy counts as index 0":       {`,"priority":1000`, line("log", ten, ten, any) + "," + line("allow", narrow, ten, web), ``, line("deny", ten, narrow, low), "/rules/1 equal_priority_overlap"},
		"what hides another is that alone":       {`,"priority":4`, line("log", ten, ten, any) + "," + line("allow", narrow, ten, web), `,"priority":4`, line("deny", ten, ten, low), "/rules/1 rule_shadowed"},
		"different priorities are an order":      {`,"priority":5`, line("log", ten, ten, any) + "," + line("allow", narrow, ten, web), `,"priority":4`, line("deny", ten, narrow, low), ""},
		"other ports of a proxy":                 {``, to(1001, "", narrow, ten), ``, to(1003, "", ten, narrow), "/rules/0 redirects_differ"},
		"other ports for the very same":          {``, to(1001, "", ten, ten), ``, to(1003, "", ten, ten), "/rules/0 redirects_differ"},
		"other ports by index":                   {`,"priority":4`, to(1001, "", narrow, ten), `,"priority":4`, line("log", ten, ten, any) + "," + to(1003, "", ten, narrow), "/rules/0 redirects_differ"},
		"one port of a proxy":                    {``, to(1001, "", ten, ten), ``, to(1001, "", ten, ten), ""},
		"a listener priority is an order":        {``, to(1001, `,"listener_priority":3`, narrow, ten), ``, to(1003, "", ten, narrow), ""},
		"ports of a proxy by priority":           {`,"priority":4`, to(1001, "", narrow, ten), `,"priority":5`, to(1003, "", ten, narrow), ""},
		"ports that no flow meets both":          {``, to(1001, "", "10.2.0.0/16", ten), ``, to(1003, "", narrow, ten), ""},
		"auth against none":                      {``, asks("required", narrow, ten), ``, asks("disabled", ten, narrow), "/rules/0 auth_differs"},
		"auth against none of the very same":     {``, asks("disabled", ten, ten), ``, asks("required", ten, ten), "/rules/0 auth_differs"},
		"auth beside what does not say":          {``, asks("required", narrow, ten), ``, line("allow", ten, narrow, web), ""},
		"auth by priority":                       {`,"priority":4`, asks("required", narrow, ten), `,"priority":5`, asks("disabled", ten, narrow), ""},
		"a pass leaves the next tier alone":      {`,"tier":"baseline"`, line("allow", ten, ten, web), `,"tier":"admin"`, line("pass", ten, ten, any), ""},
		"a pass ends its own tier":               {`,"tier":"admin","priority":2`, line("allow", ten, ten, web), `,"tier":"admin","priority":1`, line("pass", ten, ten, any), "/rules/0 rule_shadowed"},
		"in audit mode nothing decides":          {`,"priority":9`, line("allow", narrow, ten, web), `,"priority":8,"mode":"audit"`, line("deny", ten, ten, low), ""},
		"as if in audit mode it were in force":   {`,"priority":9,"mode":"audit"`, line("allow", narrow, ten, web), `,"priority":8`, line("deny", ten, ten, low), "/rules/0 rule_shadowed"},
		"two in audit mode":                      {`,"priority":9,"mode":"audit"`, line("allow", narrow, ten, web), `,"priority":8,"mode":"audit"`, line("deny", ten, ten, low), "/rules/0 rule_shadowed"},
		"log never decides":                      {``, line("allow", ten, ten, web), ``, line("log", ten, ten, any), ""},
		"selectors hold what says more":          {`,"priority":9`, peers("allow", web), `,"priority":8`, peers("deny", any), "/rules/0 rule_shadowed"},
		"a prefix does not hold a selector":      {`,"priority":9`, peers("allow", web), `,"priority":8`, line("deny", ten, ten, any), ""},
		"directions that do not meet":            {``, toward("egress", line("allow", narrow, ten, web)), ``, toward("ingress", line("deny", ten, ten, any)), ""},
		"a direction meets both ends":            {``, toward("egress", line("allow", narrow, ten, web)), ``, line("deny", ten, narrow, low), "/rules/0 equal_priority_overlap"},
		"both ends hold one":                     {`,"priority":9`, toward("egress", line("allow", narrow, ten, web)), `,"priority":8`, line("deny", ten, ten, any), "/rules/0 rule_shadowed"},
		"one end does not hold both":             {`,"priority":9`, line("allow", narrow, ten, web), `,"priority":8`, toward("egress", line("deny", ten, ten, any)), ""},
		"one end holds itself":                   {`,"priority":9`, toward("ingress", line("allow", narrow, ten, web)), `,"priority":8`, toward("ingress", line("deny", ten, ten, any)), "/rules/0 rule_shadowed"},
		"traffic that does not meet":             {``, line("allow", ten, ten, web), ``, line("deny", ten, ten, `"udp","ports":{"from":80,"to":80}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			other := NewPolicy("walls", content(t, c.otherOrder, c.other))
			var got []string
			for _, w := range besideAll(t, NewPolicy("", content(t, c.order, c.rules)), other) {
				got = append(got, w.Pointer+" "+w.Code)
				require.Contains(t, w.Detail, "policy walls")
			}
			require.Equal(t, c.want, strings.Join(got, ","))
		})
	}
}

// A pass took flows past the rule that was said to hide another one, which decides
// them: whoever removed it as advised denied them.
func TestWhatAPassTakesPastARuleIsNotHidden(t *testing.T) {
	const any, ten, narrow = `"any"`, "10.0.0.0/8", "10.1.0.0/16"
	allow := NewPolicy("allows", content(t, "", line("allow", ten, ten, any)))
	wall := func(rules ...string) *Policy {
		return NewPolicy("wall", content(t, `,"tier":"admin"`, strings.Join(append(rules, line("deny", ten, ten, any)), ",")))
	}
	behind := NewPolicy("passes", content(t, `,"tier":"admin","priority":2000`, line("pass", ten, ten, any)))
	before := NewPolicy("passes", content(t, `,"tier":"admin","priority":1`, line("pass", narrow, ten, any)))
	elsewhere := NewPolicy("passes", content(t, `,"tier":"admin","priority":1`, line("pass", "10.0.0.0/8", "192.168.0.0/16", any)))
	lower := NewPolicy("passes", content(t, "", line("pass", ten, ten, any)))
	for name, c := range map[string]struct {
		wall   *Policy
		beside []*Policy
		hidden bool
	}{
		"nobody passes":                      {wall(), nil, true},
		"the wall does, before it":           {wall(line("pass", narrow, ten, any)), nil, false},
		"another policy does, before it":     {wall(), []*Policy{before}, false},
		"another policy does, behind it":     {wall(), []*Policy{behind}, true},
		"another policy passes other flows":  {wall(), []*Policy{elsewhere}, true},
		"another policy does, in other tier": {wall(), []*Policy{lower}, true},
	} {
		t.Run(name, func(t *testing.T) {
			codes := func(c *Policy, others ...*Policy) (all []string) {
				for _, w := range besideAll(t, c, others...) {
					if w.Policy != "passes" {
						all = append(all, w.Code)
					}
				}
				return all
			}
			var shadowed, shadows []string
			if c.hidden {
				shadowed, shadows = []string{CodeShadowed}, []string{CodeShadows}
			}
			require.Equal(t, shadowed, codes(allow, append([]*Policy{c.wall}, c.beside...)...))
			require.Equal(t, shadows, codes(c.wall, append([]*Policy{allow}, c.beside...)...))
		})
	}
}

func TestPoliciesThatNoNodeCanHaveBothAreNotCompared(t *testing.T) {
	rule := line("allow", "10.0.0.0/8", "10.0.0.0/8", `"any"`)
	deny := line("deny", "10.0.0.0/8", "10.0.0.0/8", `"any"`)
	for _, c := range []struct {
		mine, other string
		meet        bool
	}{
		{"role=web", "role=db", false},
		{"role=web", "role=web", true},
		{"role=web", "env=prod", true},
		{"role in (a,b)", "role in (b,c)", true},
		{"role in (a,b)", "role in (c,d)", false},
		{"role=web", "role!=web", false},
		{"role!=web", "role=web", false},
		{"role in (a,b)", "role!=a", true},
		{"role", "!role", false},
		{"!role", "role=web", false},
	} {
		at := func(selector, rule string) policy.Content {
			p, err := policy.DecodePreview([]byte(`{"selector":{"source":"` + selector + `","destination":"b"},"rules":[` + rule + `]}`))
			require.NoError(t, err)
			return p
		}
		found := besideAll(t, NewPolicy("", at(c.mine, rule)), NewPolicy("other", at(c.other, deny)))
		require.Equal(t, c.meet, len(found) > 0, "%s and %s", c.mine, c.other)
		for _, w := range found {
			require.Equal(t, "other", w.Policy)
		}
	}
}

func besideAll(t *testing.T, c *Policy, others ...*Policy) []Warning {
	t.Helper()
	found, err := Overlapping(c, others, nil)
	require.NoError(t, err)
	return found
}

// A warning of each pair was written and thrown away, where a rule had one
// already: minutes for a few policies of the same rules.
func TestManyPoliciesThatHideOneCostAWarningEach(t *testing.T) {
	rules := make([]string, 512)
	for i := range rules {
		rules[i] = line("allow", "10.0.0.0/8", "10.0.0.0/8", `"any"`)
	}
	mine := NewPolicy("", content(t, `,"priority":9`, strings.Join(rules, ",")))
	var others []*Policy
	for i := range rules {
		rules[i] = line("deny", "10.0.0.0/8", "10.0.0.0/8", `"any"`)
	}
	for range 4 {
		others = append(others, NewPolicy("walls", content(t, `,"priority":8`, strings.Join(rules, ","))))
	}
	var found []Warning
	allocs := testing.AllocsPerRun(1, func() { found = besideAll(t, mine, others...) })
	require.Len(t, found, len(rules))
	require.Less(t, allocs, 100.0*float64(len(rules)))
}

// TestComparingAsksAsOftenAsRulesAreLong: who takes turns with others must not hold up
// theirs because his rules' selectors have many clauses.
func TestComparingAsksAsOftenAsRulesAreLong(t *testing.T) {
	asked := func(clauses int) (n int) {
		policyOf := func(action, label string) *Policy {
			var rules []string
			for i := range 64 {
				e := fmt.Sprintf("b=%s", label)
				for c := range clauses {
					e += fmt.Sprintf(",a!=%d", i*clauses+c)
				}
				rules = append(rules, fmt.Sprintf(`{"action":%q,"protocol":"any","source_selector":%q,"destination_selector":"x"}`, action, e))
			}
			return NewPolicy(action, content(t, "", strings.Join(rules, ",")))
		}
		_, err := Overlapping(policyOf("allow", "x"), []*Policy{policyOf("deny", "y")}, func() error { n++; return nil })
		require.NoError(t, err)
		return n
	}
	require.Less(t, asked(1), 10)
	require.Greater(t, asked(60), 10*asked(1))
}

func TestComparingEndsWhenItIsToldTo(t *testing.T) {
	mine := NewPolicy("", content(t, "", line("allow", "10.0.0.0/8", "10.0.0.0/8", `"any"`)))
	other := NewPolicy("other", content(t, "", line("deny", "10.0.0.0/8", "10.0.0.0/8", `"any"`)))
	enough := errors.New("nobody waits any more")
	_, err := Overlapping(mine, []*Policy{other}, func() error { return enough })
	require.ErrorIs(t, err, enough)
}

// Overlapping compares no rules of policies that agree in what their rules say: none of them
// may have a warning for it.
func TestPoliciesThatAgreeHaveNoWarning(t *testing.T) {
	agreed, had := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() *Policy {
			c := drawPolicy(rt)
			c.Rules = c.Rules[:rapid.IntRange(1, 2).Draw(rt, "rules")]
			for i := range c.Rules {
				c.Rules[i].Auth = rapid.SampledFrom([]policy.Auth{"", policy.AuthRequired, policy.AuthDisabled}).Draw(rt, "auth")
			}
			return NewPolicy("", c)
		}
		a, b := draw(), draw()
		if rapid.Bool().Draw(rt, "alike") { // of themselves few agree
			for _, c := range []*Policy{a, b} {
				for i := range c.Rules {
					r := &c.Rules[i]
					r.Action, r.ProxyPort, r.ListenerPriority, r.Auth = policy.Allow, 0, 0, ""
				}
			}
			a.Order, b.Order = policy.Order{}, policy.Order{}
			a, b = NewPolicy("", a.Content), NewPolicy("", b.Content)
		}
		all := overlapping{mine: a.ends, warned: make([]warned, len(a.ends)), policy: a, others: []*Policy{b}}
		require.NoError(rt, all.other(b, func() error { return nil }))
		if had += len(all.found); !a.disagree(b) {
			agreed++
			require.Empty(rt, all.found, "%+v\n%+v", a.Content, b.Content)
		}
	})
	require.Positive(t, agreed)
	require.Positive(t, had)
}

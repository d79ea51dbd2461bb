package gen_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/internal/test/oracle"
)

const project = "00000000-0000-4000-8000-000000000000"

func TestASeedIsAWorld(t *testing.T) {
	story := func(seed uint64) string {
		g := gen.New(seed)
		var b strings.Builder
		for _, e := range gen.NewScribe(project, seed).WriteAll(g.History(g.World(20, 40), 200)) {
			b.WriteString(e.Subject + " " + e.ID + " " + string(e.Body) + "\n")
		}
		return b.String()
	}
	require.Equal(t, story(7), story(7))
	require.NotEqual(t, story(7), story(8))
}

func TestAWorldHasEveryFormOfRuleAndSelector(t *testing.T) {
	seen := map[string]int{}
	for _, p := range gen.New(1).World(40, 0).Policies {
		require.LessOrEqual(t, len(p.Rules), 1024)
		require.NotEmpty(t, p.Rules)
		seen[map[bool]string{true: "1024 rules"}[len(p.Rules) == 1024]]++
		for _, r := range p.Rules {
			seen[r.Action]++
			seen[r.Protocol]++
			seen[map[bool]string{true: "source selector"}[r.SourceSelector != ""]]++
			seen[map[bool]string{true: "destination selector"}[r.DestinationSelector != ""]]++
			seen[map[bool]string{true: "listener"}[r.ListenerPriority != 0]]++
			seen[r.Auth]++
			seen[r.Direction]++
			require.Equal(t, r.Action == "redirect", r.ProxyPort != 0)
			require.Equal(t, r.Protocol == "tcp" || r.Protocol == "udp" || r.Protocol == "sctp", r.Ports != nil)
			if r.SourceSelector != "" || r.DestinationSelector != "" {
				require.True(t, (r.SourceSelector == "") != (r.SourceCIDR == "") && (r.DestinationSelector == "") != (r.DestinationCIDR == ""))
				continue
			}
			source, destination := netip.MustParsePrefix(r.SourceCIDR), netip.MustParsePrefix(r.DestinationCIDR)
			require.Equal(t, source, source.Masked())
			require.Equal(t, destination, destination.Masked())
			require.Equal(t, source.Addr().Is4(), destination.Addr().Is4())
			seen[map[bool]string{true: "IPv4", false: "IPv6"}[source.Addr().Is4()]]++
			if r.Ports != nil {
				require.LessOrEqual(t, r.Ports.From, r.Ports.To)
				seen[map[bool]string{true: "one port", false: "range"}[r.Ports.From == r.Ports.To]]++
			}
		}
		seen[p.Tier]++
		seen[map[bool]string{true: "priority"}[p.Priority != nil]]++
		seen[p.Mode]++
		seen[map[bool]string{true: "open"}[p.DefaultDeny != nil]]++
		for _, side := range []string{p.Selector.Source, p.Selector.Destination} {
			for _, form := range []string{"!=", " in (", "=", ",", "!legacy"} {
				if strings.Contains(side, form) {
					seen[form]++
				}
			}
			if side == "legacy" || strings.HasPrefix(side, "legacy,") {
				seen["exists"]++
			}
		}
	}
	for _, form := range []string{
		"1024 rules", "allow", "deny", "log", "tcp", "udp", "icmp", "any", "IPv4", "IPv6",
		"pass", "redirect", "sctp", "source selector", "destination selector", "listener", "required", "disabled", "ingress", "egress",
		"admin", "normal", "baseline", "priority", "open", "audit",
		"one port", "range", "!=", " in (", "=", ",", "!legacy", "exists",
	} {
		require.Positive(t, seen[form], form)
	}
}

func TestSelectorsOfAWorldMatchSomeOfItsNodes(t *testing.T) {
	g := gen.New(3)
	w := g.World(60, 100)
	var p oracle.Plane
	for _, e := range gen.NewScribe(project, 3).WriteAll(g.History(w, 0)) {
		require.NoError(t, p.Apply(e.Body))
	}
	none, rows := 0, 0
	for _, id := range p.Nodes() {
		n := len(p.Rows(id))
		rows += n
		if n == 0 {
			none++
		}
	}
	mean := float64(rows) / float64(len(p.Nodes()))
	t.Logf("%d nodes, %.1f rows each, %d without any", len(p.Nodes()), mean, none)
	require.Greater(t, mean, 3.0)
	require.Less(t, mean, 50.0)
}

func TestAHistoryTakesEveryKindOfStep(t *testing.T) {
	g := gen.New(5)
	why := map[string]int{}
	steps := g.History(g.World(20, 40), 400)
	require.GreaterOrEqual(t, len(steps), 400)
	var p oracle.Plane
	for i, e := range gen.NewScribe(project, 5).WriteAll(steps) {
		require.NoError(t, p.Apply(e.Body), steps[i])
		why[steps[i].Why]++
		why[string(steps[i].Kind)]++
	}
	for _, w := range []string{
		"first", "narrow", "select others", "other rules", "same rules, another order", "select nobody", "and back",
		"rename", "delete", "slug used again", "relabel", "there", "move", "lose labels", "remove", "back again",
	} {
		require.Positive(t, why[w], w)
	}
	require.Equal(t, why["there"]+why["select nobody"], why["and back"])
}

func TestNodesFitTheCloudPolicies(t *testing.T) {
	policies, err := gen.AWS()
	if errors.Is(err, gen.ErrNoFixtures) {
		leftout.Less(t, err)
		policies = gen.New(1).AWSLike(617)
	} else {
		require.NoError(t, err)
		rules := 0
		for _, p := range policies {
			rules += len(p.Rules)
		}
		require.Equal(t, 4583, rules)
	}
	require.Len(t, policies, 617)

	nodes := gen.New(2).AWSNodes(policies, 10_000)
	require.Len(t, nodes, 10_000)
	var p oracle.Plane
	scribe := gen.NewScribe(project, 2)
	for _, x := range policies {
		require.NoError(t, p.Apply(scribe.Write(gen.Step{Kind: gen.Create, Slug: x.Slug, Policy: x}).Body))
	}
	few, all, none := 0, 0, 0
	counts := map[string]int{} // by label set: the oracle is slow
	for _, n := range nodes {
		key := string(gen.Node{Labels: n.Labels}.JSON())
		rows, known := counts[key]
		if !known {
			p.SetNode(project, n.ID, n.Labels)
			rows = len(p.Rows(n.ID))
			counts[key] = rows
		}
		switch {
		case rows == len(policies):
			all++
		case rows == 0:
			none++
		default:
			require.LessOrEqual(t, rows, 12)
			few++
		}
	}
	t.Logf("%d label sets; %d nodes match 1 to 12, %d all, %d none", len(counts), few, all, none)
	require.Greater(t, few, 9_000)
	require.Equal(t, 20, all)
	require.Equal(t, 300, none)
}

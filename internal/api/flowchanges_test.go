package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// flows is what a dry run tells of flows.
func (p *plane) flows(t testing.TB, path, body string) resource.FlowChanges {
	t.Helper()
	a := p.do("POST", path, body)
	p.want(http.StatusOK, "", a)
	dry := into[resource.DryRun](t, a)
	require.NotNil(t, dry.Flows)
	return *dry.Flows
}

func TestADryRunTellsWhatBecomesOfFlows(t *testing.T) {
	p := newPlane(t)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.0.0.1"]}`)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("other", `{"labels":{"role":"cache"},"addresses":["172.16.0.1"]}`)
	preview := func(rules string) string {
		return `{"selector":{"source":"role=web","destination":"role=db"},"priority":7,"rules":[` + rules + `]}`
	}
	decided := func(f resource.FlowChanges, node, direction, peer string) (before, after resource.FlowDecision) {
		for _, x := range f.Examples {
			if x.NodeID == node && x.Direction == direction && x.Peer == peer {
				return x.Before, x.After
			}
		}
		require.Fail(t, "no example", "%s %s %s in %v", node, direction, peer, f.Examples)
		return before, after
	}

	f := p.flows(t, policies+":dry-run", preview(allowWeb))
	require.Equal(t, resource.NodeCount{Count: 2, First: []string{"db", "web"}}, f.Nodes)
	require.Equal(t, f.Nodes, f.Changed)
	require.Equal(t, resource.NodeCount{First: []string{}}, f.Skipped)
	require.Zero(t, f.Denied, "no policy is there: all is denied")
	before, after := decided(f, "web", "egress", "db")
	require.Equal(t, resource.FlowDecision{Verdict: "deny"}, before)
	require.Equal(t, resource.FlowDecision{Verdict: "allow", Rule: &resource.FlowRule{}}, after)

	made := into[resource.Policy](t, p.do("POST", policies, ordered("walls", `,"priority":7`, allowWeb)))
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("proxied", `,"priority":9`, proxied)))
	dry := policies + "/" + made.ID.String() + "/dry-run"
	f = p.flows(t, dry, preview(allowWeb))
	require.Zero(t, f.Changed.Count)
	require.NotZero(t, f.Compared)
	require.Empty(t, f.Examples)

	f = p.flows(t, dry, preview(denyWeb))
	require.Zero(t, f.Allowed)
	before, after = decided(f, "web", "egress", "db")
	require.Contains(t, []string{"walls", "proxied"}, before.Rule.Slug)
	require.Equal(t, resource.FlowDecision{Verdict: "deny", Rule: &resource.FlowRule{Slug: "walls"}}, after)

	f = p.flows(t, dry, `{"selector":{"source":"role=cache","destination":"role=db"},"priority":7,"rules":[`+allowWeb+`]}`)
	require.Equal(t, []string{"db", "other", "web"}, f.Nodes.First, "web is let go")
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

func TestARolloutNamesTheNodesThatRefuseAndWhy(t *testing.T) {
	since := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	var out strings.Builder
	writeRollout(&out, resource.Rollout{Desired: 2, Applied: 1, Refusals: []resource.Refusal{
		{NodeID: "web-1", Outcome: "refused", Reason: "rule 3: it requires authentication", Since: since},
	}}, resource.Policy{})
	require.Regexp(t, `(?m)^NOT APPLIED +OUTCOME +SINCE +REASON *\nweb-1 +refused +2027-01-01T00:00:00Z +rule 3: it requires authentication$`, out.String())
	out.Reset()
	writeRollout(&out, resource.Rollout{}, resource.Policy{})
	require.NotContains(t, out.String(), "NOT APPLIED")
}

func TestStatusCountsTheNodesThatHaveNotAppliedByOutcome(t *testing.T) {
	some := resource.ByState{Nodes: 6, Applied: 2, Lagging: 1, Refused: 2, Silent: 1}
	require.Equal(t, "2 of 6 applied, 1 lagging, 2 refused, 1 silent, 1 drift; not applied: db-1",
		convergenceText(resource.Convergence{Desired: 6, Applied: 2, Reported: 5, ByState: &some, NotApplied: resource.NotApplied{Refused: 2, Drift: 1}, Lagging: []resource.Lagging{{NodeID: "db-1"}}}))
	require.Equal(t, "6 of 6 applied", convergenceText(resource.Convergence{Desired: 6, Applied: 6, Reported: 5}), "of a plane that does not say it")
}

// What nodes counted is said of each way, and so is that nobody counted yet.
func TestWhatAnAuditCountedIsSaid(t *testing.T) {
	require.Equal(t, "no node has counted yet; agents with --apply nftables do", auditedText(resource.Audited{}))
	require.Equal(t, "of packets that nodes sent, its rules would have denied 1 and the default 3; of those that they received, 2 and 4; counted by 1 node",
		auditedText(resource.Audited{Nodes: 1, Egress: 1, Ingress: 2, ByDefault: resource.AuditedByDefault{Egress: 3, Ingress: 4}}))
}

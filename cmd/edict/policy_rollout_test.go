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
	}})
	require.Regexp(t, `(?m)^NOT APPLIED +OUTCOME +SINCE +REASON *\nweb-1 +refused +2027-01-01T00:00:00Z +rule 3: it requires authentication$`, out.String())
	out.Reset()
	writeRollout(&out, resource.Rollout{})
	require.NotContains(t, out.String(), "NOT APPLIED")
}

func TestStatusCountsTheNodesThatHaveNotAppliedByOutcome(t *testing.T) {
	require.Equal(t, "3 of 6 hold what they must, 5 report, 2 refused, 1 drift",
		convergenceText(resource.Convergence{Desired: 6, Applied: 3, Reported: 5, NotApplied: resource.NotApplied{Refused: 2, Drift: 1}}))
	require.Equal(t, "6 of 6 hold what they must, 5 report", convergenceText(resource.Convergence{Desired: 6, Applied: 6, Reported: 5}))
}

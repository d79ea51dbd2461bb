package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// A rollout is refused what does not follow, each with a code of its own.
func TestARolloutIsRefusedWhatDoesNotFollow(t *testing.T) {
	p := newPlane(t)
	one := policies + "/" + p.create("web").ID.String()
	preview := `{"selector":{"source":"role=web","destination":"role=db"},"rules":` + webRules + `}`
	p.want(409, "not_staged", p.do("POST", one+"/promote", `{}`))
	p.want(409, "no_rollout", p.do("POST", one+"/abort", `{}`))
	p.want(409, "no_rollout", p.do("POST", one+"/waves", `{"wave":1}`))
	p.want(http.StatusOK, "", p.do("POST", one+"/stage", preview))
	p.want(422, "unknown_on_refusal", p.do("POST", one+"/promote", `{"on_refusal":"panic"}`))
	x := into[resource.Waves](t, p.do("POST", one+"/promote", `{"waves":["canary=true"]}`))
	require.Equal(t, resource.Waves{
		RevisionID: x.RevisionID, ParentRevisionID: x.ParentRevisionID, Phase: "progressing", Waves: []string{"canary=true"}, Opened: 1,
		MinAppliedPercent: 95, MaxRefusedPercent: 1, OnRefusal: "stop", UpdatedAt: x.UpdatedAt,
	}, x)
	p.want(409, "rollout_under_way", p.do("POST", one+"/stage", preview))
	p.want(409, "rollout_under_way", p.do("POST", one+"/promote", `{}`))
	p.want(409, "rollout_under_way", p.do("PATCH", one, `{"display_name":"Other"}`))
	p.want(409, "wave_conflict", p.do("POST", one+"/waves", `{"wave":3}`))
	p.want(http.StatusOK, "", p.do("POST", one+"/waves", `{"wave":2}`))
	require.Equal(t, x.RevisionID, into[resource.Policy](t, p.do("GET", one, "")).HeadRevisionID)
}

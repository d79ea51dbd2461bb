package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

// A policy in audit mode changes no flow and no row; the table in audit mode says
// what it would do, and the rollout what nodes counted.
func TestAPolicyInAuditModeIsNotInForce(t *testing.T) {
	p := newPlane(t)
	p.deps.Convergence = startTracker(t, p)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.1.0.1"]}`)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.2"]}`)
	explain := func(mode string) resource.FlowVerdict {
		a := p.do("GET", "/v1/nodes/db/explain?direction=ingress&peer=web&protocol=tcp&port=5432"+mode, "")
		p.want(http.StatusOK, "", a)
		return into[resource.FlowVerdict](t, a)
	}
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("open", `,"tier":"normal"`, allowWeb)))
	p.want(http.StatusNoContent, "", p.do("GET", tableOfDB+"?mode=audit", ""))
	p.want(http.StatusNotFound, api.CodeNodeNotFound, p.do("GET", "/v1/nodes/nobody/datapath?mode=audit", ""))
	p.want(http.StatusUnprocessableEntity, policy.CodeUnknownMode, p.do("GET", tableOfDB+"?mode=shadow", ""))
	p.want(http.StatusUnprocessableEntity, "", p.do("POST", policies, ordered("wall", `,"mode":"shadow"`, denyWeb)))
	before := p.do("GET", tableOfDB, "")
	rows := string(p.do("GET", "/v1/nodes/db/state", "").body)

	a := p.do("POST", policies, ordered("wall", `,"tier":"admin","mode":"audit"`, denyWeb))
	p.want(http.StatusCreated, "", a)
	wall := into[resource.Policy](t, a)
	require.Equal(t, "audit", wall.Head.Mode)
	after := p.do("GET", tableOfDB, "")
	require.Equal(t, before.Header.Get("ETag"), after.Header.Get("ETag"))
	require.Equal(t, into[resource.NodeState](t, answer{body: []byte(rows)}).Policy.Rules, into[resource.NodeState](t, p.do("GET", "/v1/nodes/db/state", "")).Policy.Rules)
	require.Equal(t, "allow", explain("").Verdict)
	why := ""
	for _, c := range explain("").Considered {
		if c.Slug == "wall" {
			why = c.Reason
		}
	}
	require.Contains(t, why, "audit mode")
	require.Equal(t, "deny", explain("&mode=audit").Verdict)
	require.Equal(t, "wall", explain("&mode=audit").Rule.Slug)
	table := p.do("GET", tableOfDB+"?mode=audit", "")
	p.want(http.StatusOK, "", table)
	require.NotEqual(t, before.Header.Get("ETag"), table.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, p.do("GET", tableOfDB+"?mode=audit", "", "If-None-Match: "+table.Header.Get("ETag")).StatusCode)

	for node, counted := range map[string]string{
		"db":  fmt.Sprintf(`[{"policy_id":%q,"egress":0,"ingress":12},{"egress":1,"ingress":2}]`, wall.ID),
		"web": fmt.Sprintf(`[{"policy_id":%q,"egress":30,"ingress":0}]`, wall.ID),
	} {
		p.want(http.StatusAccepted, "", p.do("POST", "/v1/nodes/"+node+"/applied", fmt.Sprintf(`{"version":2,"fingerprint":%q,"audited":%s}`, fingerprint("[]"), counted)))
	}
	require.Equal(t, &resource.Audited{Nodes: 2, Egress: 30, Ingress: 12, ByDefault: resource.AuditedByDefault{Egress: 1, Ingress: 2}}, p.rollout(wall.ID.String()).Audited)

	// Null puts it in force, and nothing is counted any more.
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+wall.ID.String(), `{"mode":null}`))
	require.Equal(t, "deny", explain("").Verdict)
	require.Nil(t, p.rollout(wall.ID.String()).Audited)
	p.want(http.StatusNoContent, "", p.do("GET", tableOfDB+"?mode=audit", ""))
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+wall.ID.String(), `{"mode":"audit"}`))
	require.Equal(t, "allow", explain("").Verdict)
}

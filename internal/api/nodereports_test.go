package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// nodesOfEachState is a plane with a node of each state in a project, and one node in another.
func nodesOfEachState(t *testing.T) *plane {
	p := newPlane(t)
	for i, id := range []string{"applied", "lagging", "refused", "silent"} {
		p.put(id, fmt.Sprintf(`{"labels":{"role":"web","zone":"z%d"},"addresses":["10.0.0.%d"]}`, i%2, i+1)) // 1 to 4
	}
	p.put("unasked", `{"labels":{"role":"ops"}}`) // 5
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/foreign", `{"labels":{"role":"web","zone":"z0"}}`))
	p.report("lagging")
	p.create("web") // 7
	p.report("applied")
	p.want(http.StatusAccepted, "", p.say("refused", "refused", "no room"))
	return p
}

func (p *plane) nodePage(path string) (ids []string, page resource.Page[resource.Node]) {
	p.t.Helper()
	a := p.do("GET", path, "")
	p.want(http.StatusOK, "", a)
	page = into[resource.Page[resource.Node]](p.t, a)
	for _, n := range page.Items {
		ids = append(ids, n.ID)
	}
	return ids, page
}

func TestNodesAreListedByWhereTheyStand(t *testing.T) {
	p := nodesOfEachState(t)
	for _, x := range []struct {
		path string
		want []string
	}{
		{"/v1/nodes", []string{"applied", "foreign", "lagging", "refused", "silent", "unasked"}},
		{"/v1/nodes?state=applied", []string{"applied", "foreign", "unasked"}},
		{"/v1/nodes?state=lagging", []string{"lagging"}},
		{"/v1/nodes?state=refused,silent", []string{"refused", "silent"}},
		{"/v1/nodes?state=applied&label_selector=role%3Dweb", []string{"applied", "foreign"}},
		{nodes + "?state=applied", []string{"applied", "unasked"}},
		{nodes + "?state=silent", []string{"silent"}},
		{nodes + "?state=lagging&label_selector=zone%3Dz0", nil},
		{"/v1/projects/" + other + "/nodes?state=applied,lagging,refused,silent", []string{"foreign"}},
	} {
		ids, page := p.nodePage(x.path)
		require.Equal(t, x.want, ids, x.path)
		require.Nil(t, page.NextCursor)
		for _, n := range page.Items {
			require.NotNil(t, n.Report, x.path)
		}
	}
	_, page := p.nodePage(nodes + "?state=refused")
	since := epoch.Add(8 * time.Second)
	age := 0.0 // the clock of the plane stands before the report
	require.Equal(t, resource.Node{
		ID: "refused", ProjectID: page.Items[0].ProjectID, Labels: map[string]string{"role": "web", "zone": "z0"}, Addresses: []string{"10.0.0.3"}, Version: 3,
		Report: &resource.NodeReport{State: "refused", DesiredVersion: 7, Version: 7, Outcome: "refused", Reason: "no room", Since: &since, AgeSeconds: &age},
	}, page.Items[0])
	_, page = p.nodePage(nodes + "?state=silent")
	require.Equal(t, &resource.NodeReport{State: "silent", DesiredVersion: 7}, page.Items[0].Report)
	_, page = p.nodePage(nodes + "?state=lagging")
	require.Equal(t, uint64(6), page.Items[0].Report.Version)
	p.want(http.StatusBadRequest, "wrong_type", p.do("GET", "/v1/nodes?state=lost", ""))
}

func TestNodesAreListedByWhereTheyStandPageByPage(t *testing.T) {
	p := nodesOfEachState(t)
	var ids []string
	for cursor := ""; ; {
		part, page := p.nodePage("/v1/nodes?state=applied,silent&limit=1&cursor=" + cursor)
		require.Len(t, part, 1)
		ids = append(ids, part...)
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	require.Equal(t, []string{"applied", "foreign", "silent", "unasked"}, ids)
}

func TestAReportComesWithANodeThatIsAskedForIt(t *testing.T) {
	p := nodesOfEachState(t)
	ids, page := p.nodePage(nodes + "?report&limit=2")
	require.Equal(t, []string{"applied", "lagging"}, ids)
	require.NotNil(t, page.NextCursor)
	require.Equal(t, "lagging", page.Items[1].Report.State)
	_, page = p.nodePage(nodes)
	require.Nil(t, page.Items[0].Report)
	one := p.do("GET", nodes+"/applied?report=true", "")
	p.want(http.StatusOK, "", one)
	require.Equal(t, "applied", into[resource.Node](t, one).Report.State)
	require.Equal(t, p.do("GET", nodes+"/applied", "").Header.Get("ETag"), one.Header.Get("ETag"))
	require.Nil(t, into[resource.Node](t, p.do("GET", nodes+"/applied?report=false", "")).Report)
}

func TestNodesAreCountedByALabel(t *testing.T) {
	p := nodesOfEachState(t)
	count := func(path string) resource.NodeCounts {
		a := p.do("GET", path, "")
		p.want(http.StatusOK, "", a)
		return into[resource.NodeCounts](t, a)
	}
	all := resource.ByState{Nodes: 6, Applied: 3, Lagging: 1, Refused: 1, Silent: 1}
	require.Equal(t, resource.NodeCounts{Seq: 7, ByState: all}, count("/v1/nodes:summary"))
	own := resource.ByState{Nodes: 5, Applied: 2, Lagging: 1, Refused: 1, Silent: 1}
	require.Equal(t, own, count(nodes+":summary").ByState)
	z0, z1, three := "z0", "z1", 3
	require.Equal(t, resource.NodeCounts{Seq: 7, ByState: own, By: "zone", Values: &three, Groups: []resource.NodeGroup{
		{Value: &z1, ByState: resource.ByState{Nodes: 2, Lagging: 1, Silent: 1}},
		{Value: &z0, ByState: resource.ByState{Nodes: 2, Applied: 1, Refused: 1}},
		{ByState: resource.ByState{Nodes: 1, Applied: 1}},
	}}, count(nodes+":summary?by=zone"))
	first := count("/v1/nodes:summary?by=zone&limit=1&label_selector=role%3Dweb")
	require.Equal(t, 2, *first.Values)
	require.Len(t, first.Groups, 1)
	require.Equal(t, 5, first.Nodes)
	p.want(http.StatusUnprocessableEntity, "invalid_label_key", p.do("GET", "/v1/nodes:summary?by=a%20b", ""))
}

// Whoever sees one project sees where its nodes stand, and nobody else's.
func TestWhereNodesStandIsShownToWhoSeesTheProject(t *testing.T) {
	p, tokens := guarded(t, roles)
	for _, path := range []string{nodes + "/n1", "/v1/projects/" + other + "/nodes/n2"} {
		p.want(http.StatusCreated, "", p.do("PUT", path, `{"labels":{"zone":"secret"}}`, bearer(tokens["admin"])))
	}
	for _, path := range []string{"?state=applied", ":summary?by=zone"} {
		a := p.do("GET", nodes+path, "", bearer(tokens["viewer"]))
		p.want(http.StatusOK, "", a)
		require.NotContains(t, string(a.body), "n2")
		p.want(http.StatusNotFound, "project_not_found", p.do("GET", "/v1/projects/"+other+"/nodes"+path, "", bearer(tokens["viewer"])))
		p.want(http.StatusForbidden, "forbidden", p.do("GET", "/v1/nodes"+path, "", bearer(tokens["viewer"])))
		p.want(http.StatusOK, "", p.do("GET", "/v1/nodes"+path, "", bearer(tokens["reader"])))
	}
	seen := into[resource.NodeCounts](t, p.do("GET", nodes+":summary", "", bearer(tokens["viewer"])))
	require.Equal(t, 1, seen.Nodes)
}

func TestWhereNodesStandIsUnknownWhileNobodyFollowsReports(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Convergence = nil })
	p.put("n1", `{}`)
	for _, path := range []string{"/v1/nodes", "/v1/nodes:summary", nodes + "?state=silent", nodes + "?report", nodes + "/n1?report"} {
		p.want(http.StatusServiceUnavailable, "starting", p.do("GET", path, ""))
	}
	p.want(http.StatusOK, "", p.do("GET", nodes, ""))
	require.True(t, strings.Contains(nodes, project))
}

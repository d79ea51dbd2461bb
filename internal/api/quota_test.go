package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// A project that took its share of the log is refused writes over HTTP, and told
// until when. Deletions are taken, and other projects know nothing of it.
func TestAProjectBeyondItsShareIsRefused(t *testing.T) {
	const share = 64 << 10
	now := epoch.Add(time.Minute)
	p := newPlane(t, func(d *api.Deps) { d.ProjectBytes, d.Clock = share, func() time.Time { return now } })
	p.put("n1", `{}`)
	p.put("n2", `{}`)
	made := p.create("web")
	require.Equal(t, 1, p.release(handmade("n1", 1)).Applied)
	in := "/v1/projects/" + project
	refused := func(method, path, body string, header ...string) {
		t.Helper()
		a := p.do(method, path, body, header...)
		p.want(http.StatusTooManyRequests, "project_over_share", a)
		require.Equal(t, "3541", a.Header.Get("Retry-After"), "the oldest hour is over at one o'clock of the next day")
	}
	p.log.Junk("edict.log."+project+".node.junk", strings.Repeat("x", share))
	written := p.log.Len()
	now = now.Add(23 * time.Hour)
	refused("PUT", in+"/nodes/n3", `{"labels":{}}`)
	refused("PUT", in+"/nodes/n1", `{"labels":{"a":"b"}}`)
	refused("PATCH", in+"/policies/"+made.ID.String(), `{"display_name":"other"}`)
	refused("POST", in+"/policies", draft("api"))
	refused("POST", in+"/nodes:batch", `{"id":"n4"}`+"\n", "Content-Type: application/x-ndjson")
	refused("POST", in+"/artifacts:release", handmade("n2", 2), "Content-Type: application/x-ndjson")
	require.Equal(t, written, p.log.Len(), "nothing is written")

	p.want(http.StatusOK, "", p.do("PUT", in+"/nodes/n1", `{}`)) // which changes nothing
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/n9", `{"labels":{}}`))
	p.want(http.StatusNoContent, "", p.do("DELETE", in+"/nodes/n2", ""))
	p.want(http.StatusNoContent, "", p.do("DELETE", in+"/policies/"+made.ID.String(), ""))
	require.Equal(t, written+3, p.log.Len())

	shares := into[resource.Status](t, p.do("GET", "/v1/status", "")).Shares
	require.Equal(t, 1, shares.Over)
	require.Len(t, shares.Projects, 2)
	require.Equal(t, project, shares.Projects[0].Project)
	require.Greater(t, shares.Projects[0].Bytes, uint64(share))
	require.Equal(t, []bool{true, false}, []bool{shares.Projects[0].Over, shares.Projects[1].Over})

	now = now.Add(time.Hour)
	p.want(http.StatusCreated, "", p.do("PUT", in+"/nodes/n3", `{"labels":{}}`))
	require.Zero(t, into[resource.Status](t, p.do("GET", "/v1/status", "")).Shares.Over)
}

// Administrators are not held to a project's share, over HTTP as over NATS.
func TestAdministratorsWriteForAProjectBeyondItsShare(t *testing.T) {
	p, tokens := guarded(t, map[string][]string{
		"ops": {"plane#admin"}, "own": {"project:" + project + "#operator", "project:" + project + "#manage"},
	}, func(d *api.Deps) { d.ProjectBytes = 1000 })
	p.log.Junk("edict.log."+project+".node.junk", strings.Repeat("x", 1000))
	put := func(who string) answer {
		return p.do("PUT", "/v1/projects/"+project+"/nodes/n1", `{"labels":{"by":"`+who+`"}}`, bearer(tokens[who]))
	}
	p.want(http.StatusTooManyRequests, "project_over_share", put("own"))
	p.want(http.StatusCreated, "", put("ops"))
}

func TestProjectsOverTheirShareAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := newPlane(t, func(d *api.Deps) { d.ProjectBytes = 1000 })
	metrics := api.NewMetrics(reg)
	metrics.Watch(p.deps)
	p.deps.MetricsPage = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	p.Handler = judged(t, api.New(p.deps))
	require.Contains(t, string(p.do("GET", "/metrics", "").body), "edict_projects_over_share 0\n")
	p.log.JunkAt(time.Now(), "edict.log."+project+".node.junk", strings.Repeat("x", 1000))
	require.Contains(t, string(p.do("GET", "/metrics", "").body), "edict_projects_over_share 1\n")
}

// A status names those whose producers are shut out for a while, however little they took.
func TestAStatusNamesWhoIsShutOut(t *testing.T) {
	until := epoch.Add(time.Minute).UTC()
	p := newPlane(t, func(d *api.Deps) {
		d.ShutOut = func() map[uuid.UUID]time.Time { return map[uuid.UUID]time.Time{uuid.MustParse(project): until} }
	})
	p.log.Junk("edict.log."+project+".node.junk", "x")
	for range 25 {
		p.log.Junk("edict.log."+uuid.NewString()+".node.junk", strings.Repeat("x", 100))
	}
	shares := into[resource.Status](t, p.do("GET", "/v1/status", "")).Shares
	require.Len(t, shares.Projects, 21)
	last := shares.Projects[20]
	require.Equal(t, project, last.Project)
	require.Equal(t, &until, last.ShutOut)
	require.Nil(t, shares.Projects[0].ShutOut)
	require.Zero(t, shares.Over)
}

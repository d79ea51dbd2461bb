package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

func TestTheFleetIsFollowed(t *testing.T) {
	p := newPlane(t)
	server := httptest.NewServer(p.Handler)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	require.NoError(t, err)
	p.put("n1", `{"labels":{"role":"web"}}`)
	require.NoError(t, p.monitor.Take(t.Context(), epoch))
	var got []resource.FleetSample
	for s, err := range c.FleetEvents(t.Context()) {
		require.NoError(t, err)
		got = append(got, s)
		if len(got) == 2 {
			break
		}
		p.create("web")
		require.NoError(t, p.monitor.Take(t.Context(), epoch.Add(time.Second)))
	}
	require.Equal(t, []resource.FleetSample{
		{Time: epoch, LogSeq: 1, AppliedSeq: 1, ByState: resource.ByState{Nodes: 1, Applied: 1}, Streams: 3},
		{Time: epoch.Add(time.Second), LogSeq: 2, AppliedSeq: 2, ByState: resource.ByState{Nodes: 1, Silent: 1}, Streams: 3},
	}, got)
	hour := p.do("GET", "/v1/fleet/history", "")
	require.Equal(t, resource.FleetHistory{EverySeconds: 10, Items: got[:1]}, into[resource.FleetHistory](t, hour))
}

func TestAPlaneWithoutSamplesSaysSo(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Fleet = nil })
	for _, path := range []string{"/v1/fleet/events", "/v1/fleet/history"} {
		p.want(http.StatusServiceUnavailable, "starting", p.do("GET", path, ""))
	}
}

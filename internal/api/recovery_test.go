package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/snapshot"
)

func TestFactsOfWhatIsNoNodeIdAreRefused(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusUnprocessableEntity, "invalid_node_id", p.do("GET", "/v1/facts?node=Web_1", ""))
}

func TestOneCheckpointIsMadeAtATime(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.SaveSnapshot = func(context.Context) (snapshot.Manifest, error) { return snapshot.Manifest{}, snapshot.ErrRunning }
	})
	p.want(http.StatusConflict, "snapshot_running", p.do("POST", "/v1/snapshots", ""))
}

func TestAPlaneWithoutCheckpointsSaysSo(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.SaveSnapshot, d.ListSnapshots = nil, nil })
	p.want(http.StatusServiceUnavailable, "log_unavailable", p.do("POST", "/v1/snapshots", ""))
	p.want(http.StatusServiceUnavailable, "log_unavailable", p.do("GET", "/v1/snapshots", ""))
}

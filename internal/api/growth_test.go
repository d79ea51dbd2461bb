package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
)

// growing is what the status and the metrics say of a log that has n events of 100
// bytes and grows by perDay, with so much room; -1 is not known.
func growing(t *testing.T, n, perDay, room, most int64) (status, metrics map[string]float64) {
	know := func(n int64) func() (uint64, bool) {
		return func() (uint64, bool) { return uint64(max(n, 0)), n >= 0 }
	}
	reg := prometheus.NewPedanticRegistry()
	p := newPlane(t, func(d *api.Deps) { d.LogPerDay, d.LogRoom = know(perDay), know(room) })
	p.log.maxBytes = uint64(max(most, 0))
	for range n {
		p.put("n", `{}`)
	}
	api.NewMetrics(reg).Watch(api.Deps{Log: p.log, Model: p.fold, StatusDeps: api.StatusDeps{LogPerDay: know(perDay), LogRoom: know(room)}})
	var all struct{ Log map[string]any }
	require.NoError(t, json.Unmarshal(p.do("GET", "/v1/status", "").body, &all))
	status, metrics = map[string]float64{}, map[string]float64{}
	for name, v := range all.Log {
		if v, ok := v.(float64); ok {
			status[name] = v
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if name, ok := strings.CutPrefix(f.GetName(), "edict_log_"); ok && !strings.HasSuffix(name, "_sequence") {
			metrics[name] = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return status, metrics
}

func TestGrowthIsShownAsFarAsItIsKnown(t *testing.T) {
	gen.Unraced()
	const day = 24 * 3600
	for name, c := range map[string]struct {
		events, perDay, room, most int64
		want                       map[string]float64 // by JSON name
	}{
		"an empty log without limits":       {0, -1, -1, -1, map[string]float64{"bytes": 0}},
		"a young log":                       {1, -1, -1, -1, map[string]float64{"bytes": 100, "bytes_per_event": 100}},
		"a young log on our disk":           {1, -1, 900, -1, map[string]float64{"bytes": 100, "bytes_per_event": 100, "room_bytes": 900}},
		"no limit":                          {1, 50, -1, -1, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 50}},
		"a disk":                            {1, 50, 900, -1, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 50, "room_bytes": 900, "full_in_seconds": 18 * day}},
		"a stream's limit":                  {1, 50, -1, 200, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 50, "room_bytes": 100, "full_in_seconds": 2 * day}},
		"the nearer of two is the log's":    {1, 50, 900, 200, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 50, "room_bytes": 100, "full_in_seconds": 2 * day}},
		"nor is it the farther":             {1, 50, 25, 200, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 50, "room_bytes": 25, "full_in_seconds": day / 2}},
		"a stream above its limit":          {1, 50, -1, 90, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 50, "room_bytes": 0, "full_in_seconds": 0}},
		"one that is quiet is never full":   {1, 0, 900, -1, map[string]float64{"bytes": 100, "bytes_per_event": 100, "bytes_per_day": 0, "room_bytes": 900}},
		"nor while nobody knows its growth": {0, -1, 900, 200, map[string]float64{"bytes": 0, "room_bytes": 200}},
	} {
		t.Run(name, func(t *testing.T) {
			status, metrics := growing(t, c.events, c.perDay, c.room, c.most)
			require.Equal(t, c.want, status)
			for json, metric := range map[string]string{"bytes_per_day": "growth_bytes_per_day", "full_in_seconds": "full_seconds"} {
				if v, ok := c.want[json]; ok {
					delete(c.want, json)
					c.want[metric] = v
				}
			}
			require.Equal(t, c.want, metrics)
		})
	}
}

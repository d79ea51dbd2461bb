package test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowded is a plane in which one table is half a minute of work: each rule names
// its peers by a selector of its own, and nearly every node is one of nearly all.
func crowded(t *testing.T) *process {
	t.Helper()
	p := serve(t, "--durability=relaxed", "--datapath-entries=2000000")
	var nodes bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&nodes, `{"id":"c-%d","labels":{"role":"web","n":"v%d"},"addresses":[]}`+"\n", i, i)
	}
	p.batch(&nodes)
	for i := range 3 {
		var rules []map[string]any
		for j := range 1024 {
			n := i*1024 + j
			rules = append(rules, map[string]any{
				"action": "allow", "protocol": "tcp", "source_cidr": "0.0.0.0/0", "destination_selector": fmt.Sprintf("role=web,n!=x%d", n),
				"ports": map[string]int{"from": 1 + n, "to": 20000 + 7*n},
			})
		}
		p.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
			"slug": fmt.Sprintf("p-%d", i), "display_name": "p", "tier": "admin", "priority": i,
			"selector": map[string]string{"source": "role=web", "destination": "role=none"}, "rules": rules,
		}, 201)
	}
	return p
}

// asks sends a request that takes long, and returns once the plane computes for
// it. answered is closed when the request has ended, in whatever way.
func (p *process) asks(ctx context.Context, path string) (answered chan struct{}) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+path, nil)
	require.NoError(p.t, err)
	answered = make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	require.True(p.t, waitFor(time.Minute, func() bool { return p.scrape().values["edict_datapath_waiting_requests{}"] == 1 }), "nobody waits for %s", path)
	return answered
}

func tablesThat(outcome string) string {
	return fmt.Sprintf(`edict_datapath_tables_total{outcome=%q}`, outcome)
}

// What a request computes ends with its request. That it ends with the plane, too,
// is held by TestATableHasNoGrace of package api.
func TestNothingIsComputedForNobody(t *testing.T) {
	p := crowded(t)
	for i, path := range []string{"/v1/nodes/c-1/datapath", "/v1/nodes/c-2/explain?direction=egress&peer=c-3&protocol=tcp&port=80"} {
		ctx, leave := context.WithCancel(t.Context())
		answered := p.asks(ctx, path)
		leave()
		<-answered
		var seen scraped
		since := time.Now()
		if !waitFor(time.Minute, func() bool {
			seen = p.scrape()
			return seen.values[tablesThat("cancelled")] == float64(i+1)
		}) {
			p.signal(syscall.SIGQUIT) // it prints what it does
			<-p.gone
			maps.DeleteFunc(seen.values, func(series string, n float64) bool { return n == 0 || !strings.HasPrefix(series, "edict_datapath_") })
			require.Failf(t, "it is computed for nobody", "%s, %v later: %v", path, time.Since(since), seen.values)
		}
		require.Zero(t, seen.values["edict_datapath_waiting_requests{}"])
		require.Zero(t, seen.values[tablesThat("computed")]+seen.values[tablesThat("refused")], "the table is too little work for this test")
		require.True(t, waitFor(time.Minute, func() bool { return p.scrape().left() == i+1 }), "a request that nobody waits for is answered")
	}
}

// left is how many requests ended because their clients had gone.
func (s scraped) left() (n int) {
	for _, route := range []string{"/v1/nodes/{node}/datapath", "/v1/nodes/{node}/explain"} {
		n += int(s.values[fmt.Sprintf(`edict_http_requests_total{method="GET",route=%q,status="499"}`, route)])
	}
	return n
}

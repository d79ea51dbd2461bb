package plexd

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// userAgent is how agents of both dialects call themselves.
const userAgent = "plexd/0.0.0-test"

// compressAbove is the size of a body in bytes above which it is compressed.
const compressAbove = 1 << 10

// request makes a request about the agent's node. A body is JSON.
func (a *Agent) request(ctx context.Context, method, name string, body any) (*http.Request, error) {
	id := a.Identity()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	packed := len(text) > compressAbove && a.compresses(name)
	if packed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text) // into memory
		_ = z.Close()
		text = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, method, a.opt.Base()+"/v1/nodes/"+id.NodeID+"/"+name, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	if id.Bearer != "" {
		req.Header.Set("Authorization", "Bearer "+id.Bearer)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if packed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, nil
}

// ingested are the routes that take much and keep little.
var ingested = []string{"metrics", "logs", "audit"}

// compresses reports whether the dialect compresses what it sends to a route.
func (a *Agent) compresses(name string) bool {
	return a.opt.Dialect == Legacy || slices.Contains(ingested, name)
}

// report sends something that the agent can live without.
func (a *Agent) report(ctx context.Context, method, name string, body any) {
	status, _, err := a.send(ctx, method, name, body)
	if ctx.Err() != nil {
		return
	}
	a.book.note(func(c *Counters) {
		c.LastReport = status
		if err == nil && status/100 == 2 {
			c.Reports++
		} else {
			c.ReportFailures++
		}
	})
}

func (a *Agent) send(ctx context.Context, method, name string, body any) (status int, answer []byte, err error) {
	req, err := a.request(ctx, method, name, body)
	if err != nil {
		return 0, nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, answer, err
}

// beat sends heartbeats.
func (a *Agent) beat(ctx context.Context) {
	clock := time.NewTicker(a.opt.Periods.Heartbeat)
	defer clock.Stop()
	for ctx.Err() == nil {
		a.heartbeat(ctx)
		select {
		case <-clock.C:
		case <-ctx.Done():
		}
	}
}

func (a *Agent) heartbeat(ctx context.Context) {
	body := map[string]any{
		"client_now": a.opt.Now().UTC(), "binary_checksum": strings.Repeat("0", 64), "binary_version": userAgent, "nat_summary": map[string]any{},
	}
	if a.opt.Dialect == Legacy {
		body = map[string]any{"node_id": "", "timestamp": time.Time{}, "status": "", "uptime": "", "binary_checksum": ""}
	}
	status, text, err := a.send(ctx, http.MethodPost, "heartbeat", body)
	if ctx.Err() != nil {
		return
	}
	var answer struct {
		Reconcile  bool `json:"reconcile"`
		RotateKeys bool `json:"rotate_keys"`
	}
	if err == nil && status/100 == 2 {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil || status/100 != 2 {
		a.book.note(func(c *Counters) { c.HeartbeatFailures++ })
		if status == http.StatusUnauthorized {
			a.reload()
		}
		return
	}
	if answer.Reconcile {
		a.pullSoon()
	}
	a.book.note(func(c *Counters) {
		c.Heartbeats++
		if answer.Reconcile {
			c.Hints++
		}
		if answer.RotateKeys {
			c.RotateHints++
		}
	})
}

// reportChanges says what a pull changed.
func (a *Agent) reportChanges(ctx context.Context, changed []string) {
	if a.opt.Dialect == Current {
		a.report(ctx, http.MethodPut, "state/reports/policy", map[string]any{"value": a.Applied().Fingerprint})
		return
	}
	corrections := []map[string]string{}
	for _, kind := range changed {
		corrections = append(corrections, map[string]string{"type": kind, "detail": a.Applied().Fingerprint})
	}
	a.report(ctx, http.MethodPost, "drift", map[string]any{"timestamp": a.opt.Now().UTC(), "corrections": corrections})
}

// observe says where the node is, once it is known, and sends what it measures
// and writes down.
func (a *Agent) observe(ctx context.Context) {
	a.report(ctx, http.MethodPut, "endpoint", map[string]any{"endpoint": "192.0.2.1:51820", "nat_type": "none"})
	clock := time.NewTicker(a.opt.Periods.Report)
	defer clock.Stop()
	for {
		select {
		case <-clock.C:
		case <-ctx.Done():
			return
		}
		for _, name := range ingested {
			a.report(ctx, http.MethodPost, name, observations(name, a.opt.Now()))
		}
	}
}

// capabilities is what the agent says it can do.
func capabilities() any {
	return map[string]any{
		"binary":   map[string]string{"version": userAgent, "checksum": strings.Repeat("0", 64)},
		"features": []string{"policy", "events"},
	}
}

// observations are a dozen entries, large enough to be compressed.
func observations(kind string, now time.Time) any {
	entries := []map[string]any{}
	for i := range 12 {
		entries = append(entries, map[string]any{
			"timestamp": now.UTC(), "group": kind, "source": "plexd",
			"data": map[string]any{"n": i, "text": "an entry as long as entries are, which says nothing"},
		})
	}
	return entries
}

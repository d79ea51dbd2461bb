package api_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
)

const (
	caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inner  = "00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01"
	sent   = "00-0af7651916cd43dd8448eb211c80319c-00000000000000bb-01"
)

func TestEventsCarryTheCallersTrace(t *testing.T) {
	p := newPlane(t)
	p.do("PUT", nodes+"/n1", `{}`, "traceparent: "+caller)
	p.do("PUT", nodes+"/n2", `{}`, "traceparent: 00-nonsense")
	p.do("PUT", nodes+"/n3", `{}`)
	p.do("POST", nodes+":batch", "{\"id\":\"n4\",\"labels\":{},\"addresses\":[]}\n{\"id\":\"n5\",\"labels\":{},\"addresses\":[]}\n",
		"Content-Type: application/x-ndjson", "traceparent: "+caller)
	require.Equal(t, []string{caller, "", "", caller, caller}, p.log.traces)
}

// recorder is a Tracer that writes down what it is told.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

type spanKey struct{}

func (r *recorder) Request(req *http.Request, id, pattern string) (context.Context, streams.Trace, func(int)) {
	r.note("request %s %s of %s", id, pattern, req.Header.Get("traceparent"))
	trace, _ := streams.ParseTrace(inner)
	return context.WithValue(req.Context(), spanKey{}, id), trace, func(status int) { r.note("%s: %d", id, status) }
}

func (r *recorder) Publish(ctx context.Context, eventType string, events int) (streams.Trace, func(uint64, error)) {
	r.note("publish %d %s within %v", events, eventType, ctx.Value(spanKey{}))
	trace, _ := streams.ParseTrace(sent)
	return trace, func(seq uint64, err error) { r.note("at %d: %v", seq, err) }
}

func TestATracerIsToldOfRequestsAndOfWhatTheyPublish(t *testing.T) {
	r := &recorder{}
	p := newPlane(t, func(d *api.Deps) { d.Tracer = r })
	p.do("PUT", nodes+"/n1", `{}`, "traceparent: "+caller)
	p.do("GET", "/v1/nodes/n2/state", "")
	p.do("GET", "/readyz", "")
	p.do("GET", "/v1/wishes", "")
	require.Equal(t, []string{
		"request putNode /v1/projects/{project}/nodes/{node} of " + caller,
		"publish 1 node_updated within putNode", "at 1: <nil>", "putNode: 201",
		"request getNodeState /v1/nodes/{node}/state of ", "getNodeState: 404",
	}, r.lines)
	require.Equal(t, []string{sent}, p.log.traces)
}

func TestALineAboutARequestNamesItsTrace(t *testing.T) {
	var log bytes.Buffer
	p := newPlane(t, func(d *api.Deps) {
		d.Trace = slog.New(slog.NewJSONHandler(&log, nil))
		d.Durability = func() string { panic("boom") }
	})
	p.do("GET", "/v1/status", "", "traceparent: "+caller)
	require.Contains(t, log.String(), `"trace_id":"0af7651916cd43dd8448eb211c80319c"`)
	log.Reset()
	p.do("GET", "/v1/status", "")
	require.NotContains(t, log.String(), "trace_id")
}

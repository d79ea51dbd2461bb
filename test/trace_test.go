package test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	traceID    = "0af7651916cd43dd8448eb211c80319c"
	callerSpan = "b7ad6b7169203331"
)

// collector stands in for one of OpenTelemetry's.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
	names map[string]bool // of services
}

func newCollector(t *testing.T) *collector {
	c := &collector{names: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &data) != nil {
			http.Error(w, "not a trace", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range data.GetResourceSpans() {
			for _, a := range rs.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					c.names[a.GetValue().GetStringValue()] = true
				}
			}
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named are the spans of a name within the trace.
func (c *collector) named(name string) (all []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name && hex.EncodeToString(s.GetTraceId()) == traceID {
			all = append(all, s)
		}
	}
	return all
}

// announcement waits for a message about a node that is not the one before.
func announcement(t *testing.T, p *process, node string, before uint64) *jetstream.RawStreamMsg {
	t.Helper()
	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "EDICT_NODES")
	require.NoError(t, err)
	var m *jetstream.RawStreamMsg
	require.True(t, waitFor(20*time.Second, func() bool {
		m, err = stream.GetLastMsgForSubject(t.Context(), "edict.node."+node+".>")
		return err == nil && m.Sequence > before
	}), "no announcement: %v", err)
	return m
}

// TestOneTraceFromTheAuthorToTheAnnouncement follows a policy through the built
// binary, with a collector beside it.
func TestOneTraceFromTheAuthorToTheAnnouncement(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_SERVICE_NAME", "edict-under-test")
	p := serve(t, "--durability=relaxed")
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}}, 201)
	p.traced = "00-" + traceID + "-" + callerSpan + "-01"
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("web", 80), 201)

	m := announcement(t, p, "web-1", 0)
	require.Len(t, m.Header["traceparent"], 1)
	require.Contains(t, m.Header["traceparent"][0], traceID)
	require.NotContains(t, string(m.Data), traceID)
	for _, name := range []string{"createPolicy", "publish policy_revision_created", "fold", "announce"} {
		require.True(t, waitFor(10*time.Second, func() bool { return len(c.named(name)) > 0 }), "no span %q", name)
	}
	server, publish := c.named("createPolicy")[0], c.named("publish policy_revision_created")[0]
	require.Equal(t, callerSpan, hex.EncodeToString(server.GetParentSpanId()))
	require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, server.GetKind())
	require.Equal(t, server.GetSpanId(), publish.GetParentSpanId())
	require.Equal(t, tracepb.Span_SPAN_KIND_PRODUCER, publish.GetKind())
	require.Equal(t, tracepb.Span_SPAN_KIND_CONSUMER, c.named("fold")[0].GetKind())
	require.Equal(t, publish.GetSpanId(), c.named("fold")[0].GetParentSpanId())
	require.Equal(t, publish.GetSpanId(), c.named("announce")[0].GetParentSpanId())
	require.Equal(t, "00-"+traceID+"-"+hex.EncodeToString(publish.GetSpanId())+"-01", m.Header["traceparent"][0])
	require.Contains(t, c.names, "edict-under-test")
}

// TestATraceOutlivesTheProcess writes while nobody announces, and kills. Nothing
// of it needs OpenTelemetry.
func TestATraceOutlivesTheProcess(t *testing.T) {
	p := serve(t, "--durability=relaxed")
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}}, 201)
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("web", 80), 201)
	before := announcement(t, p, "web-1", 0)
	require.Empty(t, before.Header["traceparent"])
	p.kill()
	all := slices.Clone(p.args)
	p.args = append(p.args, "--roles=api")
	p.start()
	p.traced = "00-" + traceID + "-" + callerSpan + "-01"
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("web-too", 81), 201)
	p.kill()
	p.args = all
	p.start()
	m := announcement(t, p, "web-1", before.Sequence)
	require.Equal(t, p.traced, m.Header.Get("traceparent"))
	require.False(t, bytes.Contains(m.Data, []byte(traceID)))
}

func policyFor(slug string, port int) map[string]any {
	r := tcp(port)
	return map[string]any{
		"slug": slug, "display_name": slug, "selector": map[string]string{"source": "role=web", "destination": "role=db"},
		"rules": []any{map[string]any{
			"action": r.Action, "protocol": r.Protocol, "source_cidr": r.SourceCIDR, "destination_cidr": r.DestinationCIDR, "ports": r.Ports,
		}},
	}
}

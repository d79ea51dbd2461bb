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

// listener hears what is published for a node.
type listener struct {
	t   *testing.T
	nc  *nats.Conn
	sub *nats.Subscription
}

func (p *process) listener(node string) *listener {
	p.t.Helper()
	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(p.t, err)
	p.t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("edict.node." + node + ".>")
	require.NoError(p.t, err)
	require.NoError(p.t, nc.Flush())
	return &listener{p.t, nc, sub}
}

// next waits for the next message.
func (l *listener) next() *nats.Msg {
	l.t.Helper()
	m, err := l.sub.NextMsg(20 * time.Second)
	require.NoError(l.t, err, "no announcement")
	return m
}

// since asks for what the node missed after an event id, and returns the first.
func (l *listener) since(node, after string) *nats.Msg {
	l.t.Helper()
	inbox, err := l.nc.SubscribeSync(nats.NewInbox())
	require.NoError(l.t, err)
	defer inbox.Unsubscribe()
	require.NoError(l.t, l.nc.PublishRequest("edict.replay.node."+node, inbox.Subject, []byte(`{"after":"`+after+`"}`)))
	m, err := inbox.NextMsg(20 * time.Second)
	require.NoError(l.t, err)
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
	heard := p.listener("web-1")
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("first", 79), 201)
	// From then on the publisher knows who listens. This one came with a trace of its
	// own if it did before, and else as what was missed.
	heard.next()
	p.traced = "00-" + traceID + "-" + callerSpan + "-01"
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("web", 80), 201)

	m := heard.next()
	require.Len(t, m.Header["traceparent"], 1)
	require.Contains(t, m.Header["traceparent"][0], traceID)
	require.NotContains(t, string(m.Data), traceID)
	for _, name := range []string{"POST /v1/projects/{project}/policies", "publish policy_revision_created", "fold", "tell nodes"} {
		require.True(t, waitFor(10*time.Second, func() bool { return len(c.named(name)) > 0 }), "no span %q", name)
	}
	server, publish := c.named("POST /v1/projects/{project}/policies")[0], c.named("publish policy_revision_created")[0]
	require.Equal(t, callerSpan, hex.EncodeToString(server.GetParentSpanId()))
	require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, server.GetKind())
	require.Equal(t, server.GetSpanId(), publish.GetParentSpanId())
	require.Equal(t, tracepb.Span_SPAN_KIND_PRODUCER, publish.GetKind())
	require.Equal(t, tracepb.Span_SPAN_KIND_CONSUMER, c.named("fold")[0].GetKind())
	require.Equal(t, publish.GetSpanId(), c.named("fold")[0].GetParentSpanId())
	require.Equal(t, publish.GetSpanId(), c.named("tell nodes")[0].GetParentSpanId())
	require.Equal(t, "00-"+traceID+"-"+hex.EncodeToString(publish.GetSpanId())+"-01", m.Header["traceparent"][0])
	require.Contains(t, c.names, "edict-under-test")
}

// TestWhatIsToldLaterHasNoTrace writes while nobody tells nodes: who asks after a
// restart is sent what he missed, of whatever events that came, and it is no single
// event's doing. The log keeps whose doing each was.
func TestWhatIsToldLaterHasNoTrace(t *testing.T) {
	p := serve(t, "--durability=relaxed")
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}}, 201)
	_, at := p.state("web-1")
	p.kill()
	all := slices.Clone(p.args)
	p.args = append(p.args, "--roles=api")
	p.start()
	p.traced = "00-" + traceID + "-" + callerSpan + "-01"
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("web-too", 81), 201)
	p.kill()
	p.args = all
	p.start()
	l := p.listener("web-1")
	m := l.since("web-1", at.String())
	require.Equal(t, "policy_updated", m.Header.Get("Edict-Type"))
	require.Empty(t, m.Header.Get("traceparent"))
	require.False(t, bytes.Contains(m.Data, []byte(traceID)))
	event, err := l.nc.Request("$JS.API.DIRECT.GET.EDICT_LOG", []byte(`{"seq":2}`), 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, p.traced, event.Header.Get("traceparent"))
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

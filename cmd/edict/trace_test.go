//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/edict/internal/tracing"
	"github.com/edictdev/edict/internal/test/fakenft"
)

// received are the spans that came to a collector.
type received struct {
	mu    sync.Mutex
	spans []*tracepb.Span
	came  chan struct{}
}

// ServeHTTP is OTLP over HTTP.
func (c *received) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &data) != nil {
		http.Error(w, "not a trace", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	for _, rs := range data.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			c.spans = append(c.spans, ss.GetSpans()...)
		}
	}
	c.mu.Unlock()
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// until waits for what is received.
func (c *received) until(t *testing.T, enough func(spans []*tracepb.Span) bool) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		c.mu.Lock()
		ok, have := enough(c.spans), len(c.spans)
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.came:
		case <-late:
			t.Fatalf("of %d spans, not those that were waited for", have)
		}
	}
}

// below waits for so many spans of a name below a parent.
func (c *received) below(t *testing.T, parent []byte, name string, want int) (found []*tracepb.Span) {
	t.Helper()
	c.until(t, func(spans []*tracepb.Span) bool {
		found = nil
		for _, s := range spans {
			if s.GetName() == name && bytes.Equal(s.GetParentSpanId(), parent) {
				found = append(found, s)
			}
		}
		return len(found) >= want
	})
	return found
}

// started is a command that runs beside the test, and is ended with it.
func started(t *testing.T, stderr io.Writer, args ...string) (stdout *bufio.Scanner) {
	t.Helper()
	c := exec.Command("edict", args...)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.Stderr = stderr
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	return bufio.NewScanner(out)
}

// saying hears that a command says it is connected.
type saying chan struct{}

func (c saying) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("connected to")) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return os.Stderr.Write(b)
}

// tracedPlane is a plane, an agent that hears of it over SSE and a node that does over
// NATS, all of which say to a collector what they do.
type tracedPlane struct {
	*received
	server, nats string
	native       *bufio.Scanner // what the node on NATS was sent, a line each
}

func newTracedPlane(t *testing.T) *tracedPlane {
	p := &tracedPlane{received: &received{came: make(chan struct{}, 1)}}
	collector := httptest.NewServer(p.received)
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	dir := t.TempDir()
	started(t, os.Stderr, "serve", "--data", filepath.Join(dir, "d"), "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0",
		"--durability", "relaxed", "--log-format", "json", "--ready-file", filepath.Join(dir, "ready.json"))
	p.awaitReady(t, filepath.Join(dir, "ready.json"))
	t.Setenv("EDICT_SERVER", p.server)
	for _, node := range []string{"web-1", "web-2"} {
		run := exec.Command("edict", "node", "apply", node, "-l", "role=web")
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	connected := make(saying, 1)
	p.native = started(t, connected, "node", "watch", "web-2", "--nats", p.nats, "--report", "-o", "json")
	select {
	case <-connected: // what comes before, it is not sent
	case <-time.After(30 * time.Second):
		t.Fatal("the node does not come to NATS")
	}
	p.agent(t)
	return p
}

func (p *tracedPlane) awaitReady(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		var r ready
		require.NoError(t, json.Unmarshal(text, &r))
		p.server, p.nats = "http://"+r.HTTP, *r.NATS
		return true
	}, 30*time.Second, 5*time.Millisecond)
}

// agent is edict agent --apply without a kernel.
func (p *tracedPlane) agent(t *testing.T) {
	t.Helper()
	tr, err := tracing.FromEnvironment(t.Context(), tracing.Options{Service: "edict-agent", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	c, err := client.New(p.server, client.Options{})
	require.NoError(t, err)
	current := make(chan struct{}, 1)
	e, err := agent.OpenEnforcer(t.Context(), agent.EnforcerOptions{
		Node: "web-1", Dir: t.TempDir(), Server: p.server, Tables: c.Datapath, Kernel: fakenft.New(),
		Traced: func(traces []string, began time.Time, err error) { tr.Applied("web-1", traces, began, err) },
		Looked: func(s agent.Status) {
			if s.State == agent.StateCurrent {
				select {
				case current <- struct{}{}:
				default:
				}
			}
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, tr.Close(context.Background()))
	})
	<-current
}

// policyText is a policy of both nodes, as a person writes it.
func policyText(slug string) string {
	return `{"slug":"` + slug + `","selector":{"source":"role=web","destination":"role=web"},"rules":[` +
		`{"action":"allow","protocol":"tcp","source_cidr":"0.0.0.0/0","destination_cidr":"0.0.0.0/0","ports":{"from":80,"to":80}}]}`
}

// One trace goes from a command, or from a producer on NATS, over the request, the log and
// the fold to what each node applies, whether it hears over SSE or NATS.
func TestOneTraceGoesFromTheCommandToWhatNodesApply(t *testing.T) {
	p := newTracedPlane(t)
	// What the node on NATS hears first may be what it missed, which has no trace.
	p.apply(t, "first")
	require.True(t, p.native.Scan())

	p.apply(t, "second")
	publish := p.last(t, "publish policy_revision_created", p.last(t, "edict policy apply", nil).GetTraceId())
	require.Equal(t, []string{"publish policy_revision_created", "POST /v1/projects/{project}/policies", "POST", "edict policy apply"}, p.up(t, publish))
	p.goesOn(t, publish.GetTraceId(), publish.GetSpanId())

	trace, span := strings.Repeat("ab", 16), strings.Repeat("cd", 8)
	p.produce(t, "00-"+trace+"-"+span+"-01")
	id, err := hex.DecodeString(trace)
	require.NoError(t, err)
	parent, err := hex.DecodeString(span)
	require.NoError(t, err)
	p.goesOn(t, id, parent)
}

// goesOn wants what follows the append of an event.
func (p *tracedPlane) goesOn(t *testing.T, trace, parent []byte) {
	t.Helper()
	for name, spans := range map[string]int{"fold": 1, "tell nodes": 1, "apply": 2} {
		for _, s := range p.below(t, parent, name, spans) {
			require.Equal(t, trace, s.GetTraceId())
		}
	}
}

func (p *tracedPlane) apply(t *testing.T, slug string) {
	t.Helper()
	c := exec.Command("edict", "policy", "apply", "-f", "-")
	c.Stdin = strings.NewReader(policyText(slug))
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// last waits for a span of a name, in a trace if one is given, and is the last of them.
func (p *tracedPlane) last(t *testing.T, name string, trace []byte) (last *tracepb.Span) {
	t.Helper()
	p.until(t, func(spans []*tracepb.Span) bool {
		for _, s := range spans {
			if s.GetName() == name && (trace == nil || bytes.Equal(s.GetTraceId(), trace)) {
				last = s
			}
		}
		return last != nil
	})
	return last
}

// up is the names of a span and of all above it, and waits for these: the plane and the command send theirs each in its
// own time.
func (p *tracedPlane) up(t *testing.T, s *tracepb.Span) (names []string) {
	t.Helper()
	p.until(t, func(spans []*tracepb.Span) bool {
		names = []string{s.GetName()}
		for above := s.GetParentSpanId(); len(above) > 0; {
			i := slices.IndexFunc(spans, func(x *tracepb.Span) bool {
				return bytes.Equal(x.GetSpanId(), above) && bytes.Equal(x.GetTraceId(), s.GetTraceId())
			})
			if i < 0 {
				return false
			}
			names, above = append(names, spans[i].GetName()), spans[i].GetParentSpanId()
		}
		return true
	})
	return names
}

// produce appends an event past the API, with a trace.
func (p *tracedPlane) produce(t *testing.T, traceparent string) {
	t.Helper()
	nc, err := nats.Connect(p.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	const id = "0190a000-0000-7000-8000-000000000001"
	var draft struct {
		Slug     string          `json:"slug"`
		Selector json.RawMessage `json:"selector"`
		Rules    json.RawMessage `json:"rules"`
	}
	require.NoError(t, json.Unmarshal([]byte(policyText("third")), &draft))
	m := nats.NewMsg("edict.log." + defaultProject + ".policy." + id)
	m.Header["traceparent"] = []string{traceparent}
	m.Data, err = json.Marshal(map[string]any{
		"id": "0190a000-0000-7000-8000-000000000002", "type": "policy_revision_created", "project_id": defaultProject, "policy_id": id,
		"slug": draft.Slug, "display_name": draft.Slug, "revision": map[string]any{
			"id": "0190a000-0000-7000-8000-000000000003", "parent_id": nil, "selector": draft.Selector, "rules": draft.Rules, "created_by": "cmdb",
			"created_at": "2026-11-20T12:00:00Z", "correlation_id": nil,
		},
	})
	require.NoError(t, err)
	_, err = js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
}

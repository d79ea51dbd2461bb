package tracing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

const (
	author = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	silent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00" // not sampled
	second = "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

func parse(t *testing.T, s string) streams.Trace {
	x, ok := streams.ParseTrace(s)
	require.True(t, ok)
	return x
}

var quiet = Options{Instance: "w1", Version: "v1", Log: slog.New(slog.DiscardHandler)}

func recording(t *testing.T) (*Tracing, *tracetest.InMemoryExporter) {
	out := tracetest.NewInMemoryExporter()
	x, err := start(t.Context(), quiet, sdk.WithSyncer(out))
	require.NoError(t, err)
	return x, out
}

func TestOneTraceHoldsRequestPublishFoldAndTelling(t *testing.T) {
	x, out := recording(t)
	r := httptest.NewRequest(http.MethodPost, "/v1/projects/p/policies", nil)
	r.Header.Set("traceparent", author)
	r.Header.Set("tracestate", "vendor=1")
	ctx, request, answered := x.Request(r, "createPolicy", "/v1/projects/{project}/policies")
	event, published := x.Publish(ctx, "policy_revision_created", 1)
	x.Folded(projector.Traced{Trace: event, First: 7, Last: 7, Logged: time.Now(), Began: time.Now()})
	x.Announced(relay.Traced{Traces: []streams.Trace{event}, Announcements: 3, Began: time.Now()})
	published(7, nil)
	answered(201)
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", request.ID())
	const post = "POST /v1/projects/{project}/policies"
	parents := map[string]string{}
	for _, s := range out.GetSpans() {
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", s.SpanContext.TraceID().String(), s.Name)
		parents[s.Name] = s.Parent.SpanID().String()
		if s.Name == post {
			require.Equal(t, "vendor=1", s.SpanContext.TraceState().String())
		}
	}
	require.Equal(t, map[string]string{
		post: "b7ad6b7169203331", "publish policy_revision_created": traceSpan(request), "fold": traceSpan(event), "tell nodes": traceSpan(event),
	}, parents)
}

func traceSpan(x streams.Trace) string { return contextOf(x).SpanID().String() }

func TestABatchOfManyTracesLinksToThem(t *testing.T) {
	x, out := recording(t)
	x.Announced(relay.Traced{Traces: []streams.Trace{parse(t, author), parse(t, silent), parse(t, second)}})
	require.Len(t, out.GetSpans(), 1)
	s := out.GetSpans()[0]
	require.False(t, s.Parent.IsValid())
	require.Len(t, s.Links, 2)
	require.Equal(t, parse(t, second).ID(), s.Links[1].SpanContext.TraceID().String())
}

func TestWhatNobodyAsksForIsNotRecorded(t *testing.T) {
	x, out := recording(t)
	x.Announced(relay.Traced{Traces: []streams.Trace{parse(t, silent)}})
	x.Folded(projector.Traced{Trace: parse(t, silent), Logged: time.Now()})
	x.Folded(projector.Traced{Trace: parse(t, author), Logged: time.Now().Add(-time.Hour)}) // a rebuild
	require.Empty(t, out.GetSpans())
}

func TestTheEnvironmentDecides(t *testing.T) {
	for _, c := range []struct {
		name, env string
		on        bool
		fault     string
	}{
		{"nothing is said", "", false, ""},
		{"an endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1", true, ""},
		{"an endpoint for traces", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://localhost:1/x", true, ""},
		{"an exporter", "OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"the console", "OTEL_TRACES_EXPORTER=console", true, ""},
		{"both", "OTEL_TRACES_EXPORTER=otlp, console", true, ""},
		{"none, in spite of an endpoint", "OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1", false, ""},
		{"disabled, in spite of an endpoint", "OTEL_SDK_DISABLED=TRUE OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1", false, ""},
		{"an exporter nobody knows", "OTEL_TRACES_EXPORTER=zipkin", false, "OTEL_TRACES_EXPORTER"},
		{"another protocol", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "http/protobuf"},
		{"no address", "OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4317", false, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"headers without values", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_HEADERS=secret", false, "OTEL_EXPORTER_OTLP_*: HEADERS cannot be used: want name=value"},
		{"a timeout in words", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_TIMEOUT=1s", false, "OTEL_EXPORTER_OTLP_*: TIMEOUT cannot be used: want milliseconds"},
		{"a compression nobody knows", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_COMPRESSION=zip", false, "gzip"},
		{"a certificate that is not there", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere", false, "OTEL_EXPORTER_OTLP_*: CERTIFICATE cannot be used: want a file"},
		{"a certificate that is none", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_CERTIFICATE=/dev/null", false, "OTEL_EXPORTER_OTLP_*: CERTIFICATE cannot be used: want a file"},
		{"a client certificate that is not there", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/nowhere OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere", false, "OTEL_EXPORTER_OTLP_*: CLIENT_CERTIFICATE and CLIENT_KEY cannot be used: want files"},
		{"half a client certificate", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere", false, "CLIENT_CERTIFICATE"},
		{"a queue below nothing", "OTEL_TRACES_EXPORTER=console OTEL_BSP_MAX_QUEUE_SIZE=-1", false, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"a queue without end", "OTEL_TRACES_EXPORTER=console OTEL_BSP_MAX_QUEUE_SIZE=99999999999999", false, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"a batch below nothing", "OTEL_TRACES_EXPORTER=otlp OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-1", false, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"},
		{"batches without a pause between them", "OTEL_TRACES_EXPORTER=console OTEL_BSP_SCHEDULE_DELAY=0", false, "OTEL_BSP_SCHEDULE_DELAY"},
		{"a pause in words", "OTEL_TRACES_EXPORTER=console OTEL_BSP_SCHEDULE_DELAY=5s", false, "OTEL_BSP_SCHEDULE_DELAY"},
		{"batches as somebody wants them", "OTEL_TRACES_EXPORTER=console OTEL_BSP_SCHEDULE_DELAY=100 OTEL_BSP_EXPORT_TIMEOUT=0 OTEL_BSP_MAX_QUEUE_SIZE=64", true, ""},
		{"a limit in words", "OTEL_TRACES_EXPORTER=console OTEL_SPAN_LINK_COUNT_LIMIT=many", false, "OTEL_SPAN_LINK_COUNT_LIMIT"},
		{"no limit", "OTEL_TRACES_EXPORTER=console OTEL_SPAN_LINK_COUNT_LIMIT=-1", true, ""},
		{"a sampler nobody knows", "OTEL_TRACES_EXPORTER=console OTEL_TRACES_SAMPLER=ratio", false, "OTEL_TRACES_SAMPLER"},
		{"a sampler's share in percent", "OTEL_TRACES_EXPORTER=console OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=1%", false, "OTEL_TRACES_SAMPLER_ARG"},
		{"a sampler's share above all", "OTEL_TRACES_EXPORTER=console OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=10", false, "OTEL_TRACES_SAMPLER_ARG"},
		{"a sampler", "OTEL_TRACES_EXPORTER=console OTEL_TRACES_SAMPLER=ParentBased_TraceIDRatio OTEL_TRACES_SAMPLER_ARG=0.01", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pair := range strings.Split(strings.ReplaceAll(c.env, ", ", ","), " ") {
				if name, value, ok := strings.Cut(pair, "="); ok {
					t.Setenv(name, value)
				}
			}
			opt := quiet
			opt.Console = io.Discard
			x, err := FromEnvironment(t.Context(), opt)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				require.NotContains(t, err.Error(), "secret")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.on, x != nil)
			if x != nil {
				require.NoError(t, x.Close(t.Context()))
			}
		})
	}
}

// receiver stands in for a collector. It answers as it is told, and keeps what it is sent.
func receiver(t *testing.T, answers ...int) (url string, got *[]*tracepb.TracesData) {
	got = new([]*tracepb.TracesData)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/base/v1/traces", r.URL.Path)
		require.Equal(t, "a b", r.Header.Get("X-Key"))
		z, err := gzip.NewReader(r.Body)
		require.NoError(t, err)
		body, err := io.ReadAll(z)
		require.NoError(t, err)
		var data tracepb.TracesData
		require.NoError(t, proto.Unmarshal(body, &data))
		*got = append(*got, &data)
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	t.Cleanup(server.Close)
	return server.URL + "/base", got
}

func TestSpansGoWhereTheEnvironmentSaysAndALossIsToldOnce(t *testing.T) {
	url, got := receiver(t, 200, 400, 400, 200)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, other=1")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	var log bytes.Buffer
	e, err := newOTLP(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	spans := tracetest.SpanStubs{{Name: "fold"}}.Snapshots()
	require.NoError(t, e.ExportSpans(t.Context(), spans))
	require.Len(t, *got, 1)
	require.Equal(t, "fold", (*got)[0].GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetName())
	require.Empty(t, log.String())
	for range 2 {
		require.ErrorContains(t, e.ExportSpans(t.Context(), spans), "400")
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "a failure is told once")
	require.NoError(t, e.ExportSpans(t.Context(), spans))
	require.Equal(t, 2, strings.Count(log.String(), "\n"), "and that it is over")
	require.NoError(t, e.Shutdown(t.Context()))
}

func TestWithoutAnEndpointACollectorIsAskedWhereOpenTelemetryHasIt(t *testing.T) {
	var asked string
	e, err := otlptracehttp.New(t.Context(), append(fallback(), otlptracehttp.WithHTTPClient(&http.Client{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.String()
			return nil, errors.New("nobody is asked here")
		}),
	}))...)
	require.NoError(t, err)
	require.Error(t, e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "fold"}}.Snapshots()))
	require.Equal(t, "http://localhost:4318/v1/traces", asked)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestACommandsRequestsBelongToItsTrace(t *testing.T) {
	x, out := recording(t)
	var asked http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header
		w.WriteHeader(http.StatusConflict)
	}))
	defer server.Close()
	ctx, done := x.Command(t.Context(), "edict policy apply", author)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/x", nil)
	require.NoError(t, err)
	resp, err := x.Client(nil).Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	done(6)
	spans := out.GetSpans()
	require.Len(t, spans, 2)
	post, command := spans[0], spans[1]
	require.Equal(t, "POST", post.Name)
	require.Equal(t, "edict policy apply", command.Name)
	require.Equal(t, "b7ad6b7169203331", command.Parent.SpanID().String())
	require.Equal(t, command.SpanContext.SpanID(), post.Parent.SpanID())
	require.Equal(t, traceOf(post.SpanContext).String(), asked.Get("traceparent"))
	require.Equal(t, codes.Error, command.Status.Code)
	require.Empty(t, r.Header, "the caller's request is left as it is")
}

func TestANodeRecordsWhatItAppliesForEachTrace(t *testing.T) {
	x, out := recording(t)
	x.Applied("web-1", []string{author, silent, "nonsense", second}, time.Now(), errors.New("no room"))
	require.Len(t, out.GetSpans(), 2)
	require.Equal(t, "b7ad6b7169203331", out.GetSpans()[0].Parent.SpanID().String())
	require.Equal(t, parse(t, second).ID(), out.GetSpans()[1].SpanContext.TraceID().String())
	require.Equal(t, "no room", out.GetSpans()[1].Status.Description)
}

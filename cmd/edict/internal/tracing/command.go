package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/edictdev/edict/internal/streams"
)

// Command begins to record a command, such as "edict policy apply". What it asks the
// plane under ctx belongs to its trace, which goes on from the process that runs it if
// the variable TRACEPARENT says so.
func (t *Tracing) Command(ctx context.Context, name, traceparent string) (_ context.Context, done func(code int)) {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, func(code int) {
		span.SetAttributes(attribute.Int("process.exit.code", code))
		if code != 0 {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Client is a client whose requests are recorded, and tell the server of their trace.
// Nil is http.DefaultClient.
func (t *Tracing) Client(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	out := *c
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = &requests{out.Transport, t.tracer}
	return &out
}

// requests records what it sends.
type requests struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip implements http.RoundTripper. What belongs to no trace is not recorded.
func (q *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return q.next.RoundTrip(r)
	}
	ctx, span := q.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.Method),
		attribute.String("server.address", r.URL.Hostname()),
		attribute.String("url.path", r.URL.Path)))
	defer span.End()
	r = r.Clone(ctx)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := q.next.RoundTrip(r)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, resp.Status)
	}
	return resp, nil
}

// Applied records that a node put in force what it was sent: a span of kind consumer for
// each trace that a message carried, below what published the event. traces are
// traceparents as messages had them; nobody has verified them.
func (t *Tracing) Applied(node string, traces []string, began time.Time, err error) {
	for _, text := range traces {
		x, ok := streams.ParseTrace(text)
		if !ok || !sampled(x) {
			continue
		}
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), contextOf(x))
		_, span := t.tracer.Start(ctx, "apply", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(began), trace.WithAttributes(
			attribute.String("messaging.operation.type", "process"),
			attribute.String("edict.node", node)))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

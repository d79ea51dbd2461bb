package tracing

import (
	"context"
	"math"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

// fresh is how old an event may be for its fold to be recorded. A rebuild folds
// years of traces that nobody keeps any more.
const fresh = 5 * time.Minute

// Request records a request: a span of kind server, named by its method and route.
func (t *Tracing) Request(r *http.Request, id, pattern string) (context.Context, streams.Trace, func(status int)) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, r.Method+" "+pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("edict.operation", id),
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", pattern),
		attribute.String("url.path", r.URL.Path)))
	return ctx, traceOf(span.SpanContext()), func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		span.End()
	}
}

// Publish records that events go to the log: a span of kind producer, whose
// trace they carry.
func (t *Tracing) Publish(ctx context.Context, eventType string, events int) (streams.Trace, func(seq uint64, err error)) {
	ctx, span := t.tracer.Start(ctx, "publish "+eventType, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", streams.LogStream),
		attribute.Int("messaging.batch.message_count", events)))
	return traceOf(trace.SpanContextFromContext(ctx)), func(seq uint64, err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		} else {
			span.SetAttributes(sequence("edict.log.sequence", seq))
		}
		span.End()
	}
}

// Folded records what the fold made of events: a span of kind consumer, below
// the one that published them. Every process folds, so each records its own.
func (t *Tracing) Folded(f projector.Traced) {
	if !sampled(f.Trace) || t.now().Sub(f.Logged) > fresh {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), contextOf(f.Trace))
	_, span := t.tracer.Start(ctx, "fold", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(f.Began), trace.WithAttributes(
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", streams.LogStream),
		attribute.Int("messaging.batch.message_count", int(f.Last-f.First+1)), //nolint:gosec // of one batch
		attribute.String("edict.event.type", f.Type),
		sequence("edict.log.sequence", f.Last),
		attribute.Int("edict.rejected", f.Rejected)))
	span.End()
}

// Announced records a round of messages to nodes, over SSE or on NATS. A round for
// one trace belongs to that trace; a round for several has a trace of its own, with
// a link to each.
func (t *Tracing) Announced(b relay.Traced) {
	var links []trace.Link
	for _, x := range b.Traces {
		if sampled(x) {
			links = append(links, trace.Link{SpanContext: contextOf(x)})
		}
	}
	ctx := context.Background()
	switch {
	case len(links) == 0:
		return
	case len(links) == 1:
		ctx, links = trace.ContextWithRemoteSpanContext(ctx, links[0].SpanContext), nil
	}
	_, span := t.tracer.Start(ctx, "tell nodes", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(b.Began),
		trace.WithLinks(links...), trace.WithAttributes(
			attribute.String("messaging.operation.type", "send"),
			attribute.Int("messaging.batch.message_count", b.Announcements)))
	span.End()
}

// sequence is a sequence of the log; none comes near the largest number of an attribute.
func sequence(key string, seq uint64) attribute.KeyValue {
	return attribute.Int64(key, int64(min(seq, math.MaxInt64))) //nolint:gosec // bounded
}

func sampled(t streams.Trace) bool { return contextOf(t).IsSampled() }

// contextOf and traceOf say the same in two languages.
func contextOf(t streams.Trace) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(t[:16]), SpanID: trace.SpanID(t[16:24]), TraceFlags: trace.TraceFlags(t[24]), Remote: true,
	})
}

func traceOf(c trace.SpanContext) (t streams.Trace) {
	if !c.IsValid() {
		return t
	}
	id, span := c.TraceID(), c.SpanID()
	copy(t[:16], id[:])
	copy(t[16:24], span[:])
	t[24] = byte(c.TraceFlags())
	return t
}

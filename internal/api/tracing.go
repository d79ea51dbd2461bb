package api

import (
	"context"
	"net/http"

	"github.com/edictdev/edict/internal/streams"
)

// Tracer records what requests do, for a trace that may begin with the caller
// and goes on in the fold and in the announcement. Its methods are called from
// many goroutines.
type Tracer interface {
	// Request begins to record a request, in the trace of its headers
	// traceparent and tracestate if it has them. What the request does is
	// recorded under ctx and passed on as trace. done is called once.
	Request(r *http.Request, id, pattern string) (ctx context.Context, trace streams.Trace, done func(status int))
	// Publish begins to record that events of one type are appended to the log;
	// they carry trace. done gets the last one's sequence.
	Publish(ctx context.Context, eventType string, events int) (trace streams.Trace, done func(seq uint64, err error))
}

// tracing joins requests and the events that they append to traces.
type tracing struct{ tracer Tracer } // nil: nothing is recorded

// request joins a request to the caller's trace. Without a tracer its
// events carry what the caller sent. Nobody asks what probes and scrapes did,
// and an event stream lasts as long as its client likes.
func (t *tracing) request(c *call) (done func(status int)) {
	c.trace, _ = streams.ParseTrace(c.r.Header.Get(HeaderTraceparent))
	if t.tracer == nil || c.route.Tag == tagHealth || c.route.streams() || c.route.ID == "" {
		return func(int) {}
	}
	ctx, trace, done := t.tracer.Request(c.r, c.route.ID, c.route.Pattern)
	c.r, c.trace = c.r.WithContext(ctx), trace
	return done
}

// publishing is the trace that events of a call carry.
func (t *tracing) publishing(c *call, eventType string, events int) (trace streams.Trace, done func(seq uint64, err error)) {
	if t.tracer == nil {
		return c.trace, func(uint64, error) {}
	}
	return t.tracer.Publish(c.r.Context(), eventType, events)
}

package relay

import (
	"slices"
	"time"

	"github.com/edictdev/edict/internal/streams"
)

// Traced is a round of telling nodes, over SSE or on NATS, of events that carry
// a trace.
type Traced struct {
	Traces        []streams.Trace // distinct, in the order they are told
	Announcements int             // in the round, those without a trace included
	Began         time.Time       // when it began
}

// tracesMost bounds the traces that one round is reported with.
const tracesMost = 128

// note adds the trace of an event that is told.
func (t *Traced) note(x streams.Trace) {
	// What one event causes is told side by side.
	if n := len(t.Traces); x.IsZero() || n == tracesMost || n > 0 && t.Traces[n-1] == x || slices.Contains(t.Traces, x) {
		return
	}
	t.Traces = append(t.Traces, x)
}

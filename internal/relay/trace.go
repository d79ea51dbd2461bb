package relay

import (
	"slices"
	"time"

	"github.com/edictdev/edict/internal/streams"
)

// Traced is a round of messages, over SSE or on NATS, about events that carry a
// trace.
type Traced struct {
	Traces        []streams.Trace // distinct, in the order of their messages
	Announcements int             // of the round, including those without a trace
	Began         time.Time       // when it began
}

// maxTraces bounds the traces that are reported of one round.
const maxTraces = 128

// note adds the trace of an event.
func (t *Traced) note(x streams.Trace) {
	// The messages of one event follow each other.
	if n := len(t.Traces); x.IsZero() || n == maxTraces || n > 0 && t.Traces[n-1] == x || slices.Contains(t.Traces, x) {
		return
	}
	t.Traces = append(t.Traces, x)
}

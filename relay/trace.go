package relay

import (
	"slices"
	"time"

	"github.com/edictdev/edict/streams"
)

// Traced is an atomic batch of the node stream that tells of events which
// carry a trace.
type Traced struct {
	Traces        []streams.Trace // distinct, in the order they are told
	Announcements int             // in the batch, those without a trace included
	Began         time.Time       // when it was published
}

// tracesMost bounds the traces that one batch is reported with.
const tracesMost = 128

// report tells of the batch, if anything in it carries a trace.
func (b *batch) report(to func(Traced), began time.Time) {
	t := Traced{Announcements: b.announcements(), Began: began}
	for _, x := range b.parts {
		for _, l := range x.lines {
			// Announcements of one event lie side by side.
			if n := len(t.Traces); l.trace.IsZero() || n > 0 && t.Traces[n-1] == l.trace || slices.Contains(t.Traces, l.trace) {
				continue
			}
			if t.Traces = append(t.Traces, l.trace); len(t.Traces) == tracesMost {
				to(t)
				return
			}
		}
	}
	if len(t.Traces) > 0 {
		to(t)
	}
}

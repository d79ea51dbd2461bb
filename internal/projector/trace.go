package projector

import (
	"time"

	"github.com/edictdev/edict/internal/streams"
)

// Traced is what the fold made of events that follow each other and that one
// request caused.
type Traced struct {
	Trace       streams.Trace
	First, Last uint64    // log sequences
	Type        string    // of the first event; "" when it could not be read
	Logged      time.Time // log timestamp of First
	Rejected    int       // of these events
	Began       time.Time // when their batch was taken up
}

// traces finds what was traced in a batch. It says nothing about the state.
func traces(entries []entry, made []Verdict, began time.Time) (all []Traced) {
	for i := range entries {
		e := &entries[i]
		if e.trace.IsZero() {
			continue
		}
		n := len(all)
		if n == 0 || all[n-1].Trace != e.trace || all[n-1].Last+1 != e.msg.Seq {
			all = append(all, Traced{Trace: e.trace, First: e.msg.Seq, Logged: e.msg.Time, Began: began})
			if e.event != nil {
				all[n].Type = e.event.EventType()
			}
			n++
		}
		all[n-1].Last = e.msg.Seq
		if made[i].Rejection != nil {
			all[n-1].Rejected++
		}
	}
	return all
}

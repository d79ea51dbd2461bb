package api

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
)

// TrailLog is what of the log the audit reads; *streams.Log is one.
type TrailLog interface {
	State(ctx context.Context) (streams.State, error)
	Begins() uint64
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}

// Marks tell the events that a worker of the plane appended; *streams.Marker does.
type Marks interface {
	Marked(m *streams.Message) bool
}

// TrailOf reads the events of a log for Deps.Trail, from the first one that it has above 0.
func TrailOf(log TrailLog, marks Marks) func(ctx context.Context, after uint64, limit int) ([]Trailed, error) {
	return func(ctx context.Context, after uint64, limit int) ([]Trailed, error) {
		const patience = 10 * time.Second
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		state, err := log.State(ctx)
		if err != nil {
			return nil, err
		}
		var out []Trailed
		if after >= state.Last {
			return nil, nil
		}
		from := after + 1
		if after == 0 {
			from = log.Begins()
		}
		for msgs, err := range log.Follow(ctx, from) {
			if err != nil {
				return nil, err
			}
			for _, m := range msgs {
				if len(out) == limit || m.Seq > state.Last {
					return out, nil
				}
				out = append(out, Trailed{Message: trimmed(m), Direct: !marks.Marked(&m)})
			}
			if len(out) == limit || len(out) > 0 && out[len(out)-1].Seq >= state.Last {
				return out, nil
			}
		}
		return nil, fmt.Errorf("read the log above %d: %w", after, context.Cause(ctx))
	}
}

// What the trail keeps of an event: whoever appends may make a page of them as
// large as a thousand messages.
const (
	trailBody   = 64 << 10 // of those that say more than their headers
	trailHeader = 1 << 10
)

// trimmed is what of an event the trail shows.
func trimmed(m streams.Message) streams.Message {
	if len(m.Body) > trailBody {
		m.Body = nil
	}
	kept := make(map[string][]string, 4)
	for _, name := range []string{wire.HeaderCEID, wire.HeaderCEType, wire.HeaderPrincipal, wire.HeaderCorrelation} {
		if v := m.Get(name); v != "" {
			kept[name] = []string{strings.ToValidUTF8(v[:min(len(v), trailHeader)], "")}
		}
	}
	m.Header = kept
	return m
}

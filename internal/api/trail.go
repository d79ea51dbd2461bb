package api

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// TrailLog is what of the log the audit reads; *streams.Log is one.
type TrailLog interface {
	State(ctx context.Context) (streams.State, error)
	Begins() uint64
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}

// Marks tell the events that a worker of the plane appended, and whether that is proved;
// *streams.Marker does.
type Marks interface {
	Marked(m *streams.Message) (ours, proved bool)
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
				out = append(out, TrailedOf(m, marks))
			}
			if len(out) == limit || len(out) > 0 && out[len(out)-1].Seq >= state.Last {
				return out, nil
			}
		}
		return nil, fmt.Errorf("read the log above %d: %w", after, context.Cause(ctx))
	}
}

// TrailedOf is an event of the log as the audit reads it. What it is, its body says: that
// is what was folded, and its headers may say something else, or nothing. Those of a worker
// say the same, which spares the reading of most bodies.
func TrailedOf(m streams.Message, marks Marks) Trailed {
	ours, proved := marks.Marked(&m)
	out := Trailed{Message: m, Direct: !ours}
	out.Header = make(map[string][]string, 4)
	if len(m.Body) > trailBody {
		out.Body = nil
	}
	keep := func(name, value string) {
		if value != "" {
			out.Header[name] = []string{strings.ToValidUTF8(value[:min(len(value), trailHeader)], "")}
		}
	}
	for _, name := range []string{wire.HeaderCEID, wire.HeaderCEType, wire.HeaderPrincipal, wire.HeaderCorrelation} {
		keep(name, m.Get(name))
	}
	if k := policy.KindNamed(m.Get(wire.HeaderCEType)); proved && k != nil && k.Detail == nil {
		return out
	}
	e, _ := policy.Decode(m.Body) // whoever appends may append anything
	if e == nil {
		return out
	}
	keep(wire.HeaderCEID, e.EventID().String())
	keep(wire.HeaderCEType, e.EventType())
	if k := policy.KindOf(e); k.Detail != nil {
		out.Detail = k.Detail(e)
	}
	return out
}

// What the trail keeps of an event: whoever appends may make a page of them as
// large as a thousand messages.
const (
	trailBody   = 64 << 10 // of those that say more than their headers
	trailHeader = 1 << 10
)

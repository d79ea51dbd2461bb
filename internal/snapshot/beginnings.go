package snapshot

import (
	"context"
	"errors"
	"sort"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// Beginnings are where a plane's log can be folded from, beside a worker's own marks: its
// checkpoints, its origin, and its first event. All are required.
type Beginnings struct {
	Conn  *streams.Conn
	Log   *streams.Log
	Store func() projector.Options // of a read model of the log, with every link that the witness has
	Trust Trust
}

// options are for a read model that is folded up to a sequence.
func (b Beginnings) options(until uint64) projector.Options {
	opt := b.Store()
	opt.Brief = true
	opt.Links = opt.Links[:sort.Search(len(opt.Links), func(i int) bool { return opt.Links[i].Seq > until })]
	return opt
}

// Nearest is HistoryOptions.Nearest.
func (b Beginnings) Nearest(ctx context.Context, seq uint64) (Beginning, error) {
	from := Beginning{Begin: b.first}
	if err := b.Log.Removed(ctx, seq); err != nil {
		return from, err
	}
	if o, ok := b.Log.Origin(); ok && o.Seq <= seq {
		from = Beginning{o.Seq, func(ctx context.Context, dir string, until uint64) (*Replayed, error) {
			c, err := OpenOriginStore(ctx, b.Conn, b.Log.Created(), o)
			if err != nil {
				return nil, err
			}
			return BeginFromOrigin(ctx, c, o, b.Trust, b.Log, dir, b.options(until))
		}}
	}
	return b.checkpoint(ctx, seq, from)
}

func (b Beginnings) first(_ context.Context, dir string, until uint64) (*Replayed, error) {
	return Begin(b.Log, dir, b.options(until))
}

// checkpoint is the nearest checkpoint where that is nearer. One that is refused is as if
// it were not there.
func (b Beginnings) checkpoint(ctx context.Context, seq uint64, from Beginning) (Beginning, error) {
	c, err := OpenCheckpoints(ctx, b.Conn, b.Log.Created(), false)
	if errors.Is(err, streams.ErrNotFound) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	all, err := c.List(ctx) // newest first
	if err != nil {
		return from, err
	}
	for _, m := range all {
		if m.Seq > seq || m.Seq <= from.Seq || m.Schema != projector.SchemaVersion {
			continue
		}
		return Beginning{m.Seq, func(ctx context.Context, dir string, until uint64) (*Replayed, error) {
			r, err := BeginFrom(ctx, c, m, b.Log, dir, b.options(until))
			if errors.As(err, new(*RefusedError)) {
				return from.Begin(ctx, dir, until)
			}
			return r, err
		}}, nil
	}
	return from, nil
}

// Open is HistoryOptions.Open.
func (b Beginnings) Open(ctx context.Context, dir string, until uint64) (*Replayed, error) {
	return openVerified(ctx, b.Log, dir, b.options(until))
}

// openVerified opens a read model that was folded before, and holds it against the log.
func openVerified(ctx context.Context, log interface {
	Log
	Getter
}, dir string, opt projector.Options,
) (*Replayed, error) {
	r, err := begin(log, dir, opt)
	if err != nil {
		return nil, err
	}
	if err := r.store.Verify(ctx, log); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

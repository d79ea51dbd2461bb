package projector

import (
	"context"
	"log/slog"
	"time"

	"github.com/edictdev/edict/internal/streams"
)

// Rejections is where producers look for what became of their events;
// *streams.Rejected is one.
type Rejections interface {
	Write(ctx context.Context, r streams.Rejection) error
}

// Reporter writes what the fold rejected to where producers look for it. The fold
// never waits for it; after a crash some are written again, which changes
// nothing.
type Reporter struct {
	Store *Projector
	To    Rejections
	Log   *slog.Logger
}

// Run reports until ctx ends.
func (r Reporter) Run(ctx context.Context) error {
	for {
		changed := r.Store.Changed()
		err := r.report(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var again <-chan time.Time
		if err != nil {
			const pause = time.Second
			r.Log.Warn("rejected events could not be reported yet; trying again", "error", err)
			again = time.After(pause)
			changed = nil
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// report reports all that was rejected so far.
func (r Reporter) report(ctx context.Context) error {
	const page = 256
	for {
		list, err := r.Store.Unreported(page)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, x := range list {
			if err := r.To.Write(ctx, x); err != nil {
				return err
			}
		}
		r.logRejected(list)
		if err := r.Store.Reported(list[len(list)-1].Seq); err != nil {
			return err
		}
	}
}

// logRejected names the first few rejected events of a page, and counts the
// rest: a producer that does everything wrong must not fill a disk with it.
func (r Reporter) logRejected(list []streams.Rejection) {
	const most = 10
	for i, x := range list {
		if i == most {
			r.Log.Warn("more events rejected", "events", len(list)-most, "seq", list[len(list)-1].Seq)
			return
		}
		r.Log.Warn("event rejected", "seq", x.Seq, "code", x.Code, "subject", x.Subject)
	}
}

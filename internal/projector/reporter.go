package projector

import (
	"context"
	"log/slog"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/streams"
)

// Rejections is where producers look for what became of their events;
// *streams.Rejected is one.
type Rejections interface {
	Write(ctx context.Context, r streams.Rejection) error
}

// Reporter writes what the fold rejected to where producers look for it. The fold
// never waits for it; after a crash some are written again, which changes
// nothing. A backlog is written in a part of the time alone: each rejection is synced to
// the disk, as each event of the log is, and a producer that does everything wrong must not
// take that from others.
//
// Of what the log held at the start, the rejected events are counted in one line
// of the process's log, because a new worker folds the whole past; each later one
// has a line.
type Reporter struct {
	Store *Projector
	To    Rejections
	Log   *slog.Logger
	// Held is the sequence of the last event that the log held at the start; 0: none.
	Held uint64

	old int // rejected events up to it that are in no line yet
}

// Run reports until ctx ends.
func (r Reporter) Run(ctx context.Context) error {
	pause := backoff.Steady(time.Second)
	for {
		changed := r.Store.Changed()
		err := r.report(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var again <-chan time.Time
		if err != nil {
			r.Log.Warn("rejected events could not be reported yet; trying again", "error", err)
			again = time.After(pause.Next())
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
func (r *Reporter) report(ctx context.Context) error {
	const page = 256
	for {
		applied := r.Store.Applied()
		list, err := r.Store.Unreported(page)
		if err != nil || len(list) == 0 {
			if err == nil && applied >= r.Held {
				r.logOld()
			}
			return err
		}
		if err := r.write(ctx, list); err != nil {
			return err
		}
		r.logRejected(list)
		if err := r.Store.Reported(list[len(list)-1].Seq); err != nil {
			return err
		}
	}
}

const (
	reportAtOnce = 16 // rejections that are written without a pause
	reportShare  = 5  // of the others the time that one takes is one in so many
	// A write that takes longer than a fourth of this waited for servers, and not for a
	// disk that others need.
	longestReportPause = time.Second
)

// write writes a page, most of it slowly.
func (r *Reporter) write(ctx context.Context, list []streams.Rejection) error {
	for i, x := range list {
		began := time.Now()
		if err := r.To.Write(ctx, x); err != nil {
			return err
		}
		if i < reportAtOnce {
			continue
		}
		if err := backoff.Sleep(ctx, min(longestReportPause, (reportShare-1)*time.Since(began))); err != nil {
			return err
		}
	}
	return nil
}

// logOld counts what was rejected of the past, once that is folded whole.
func (r *Reporter) logOld() {
	if r.old > 0 {
		r.Log.Info("events that the log held at the start are rejected", "events", r.old, "seq", r.Held)
		r.old = 0
	}
}

// logRejected counts the events of the past, names the first few others of a
// page, and counts the rest: a producer that does everything wrong must not fill a
// disk with it.
func (r *Reporter) logRejected(list []streams.Rejection) {
	const most = 10
	for len(list) > 0 && list[0].Seq <= r.Held {
		list = list[1:]
		r.old++
	}
	for i, x := range list {
		if i == most {
			r.Log.Warn("more events rejected", "events", len(list)-most, "seq", list[len(list)-1].Seq)
			return
		}
		r.Log.Warn("event rejected", "seq", x.Seq, "code", x.Code, "subject", x.Subject)
	}
}

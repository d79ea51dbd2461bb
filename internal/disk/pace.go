package disk

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/internal/streams"
)

const (
	// PaceEvery is how often the log's pace is measured. It costs some twenty
	// reads of single events.
	PaceEvery = time.Minute
	// leastAge is how old a log must be for a pace: before, one import says all.
	leastAge = time.Hour

	day = 24 * time.Hour
)

// PaceOptions say of which log the pace is measured. Only Logger may be nil.
type PaceOptions struct {
	Log interface {
		State(ctx context.Context) (streams.State, error)
		Created() time.Time
	}
	// SeqAt is the log's last sequence at a time.
	SeqAt  func(ctx context.Context, at time.Time) (uint64, error)
	Logger *slog.Logger
}

// Pace measures how many bytes a day the log grows by: the events of the last 24
// hours, by the log's own times, each as large as the mean of all. The log's
// server does not say how large the events of a day are. It is safe for
// concurrent use; Run runs it.
type Pace struct {
	opt    PaceOptions
	now    func() time.Time
	perDay atomic.Pointer[uint64]
}

// NewPace makes one, which knows nothing until it runs.
func NewPace(opt PaceOptions) *Pace {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pace{opt: opt, now: time.Now}
}

// PerDay is how many bytes the log grows by in 24 hours; known is false while
// the log is younger than an hour, and until it was measured once. While the log
// cannot be read it is what was measured last.
func (p *Pace) PerDay() (bytes uint64, known bool) {
	if b := p.perDay.Load(); b != nil {
		return *b, true
	}
	return 0, false
}

// Run measures until ctx ends.
func (p *Pace) Run(ctx context.Context) error {
	tick := time.NewTicker(PaceEvery)
	defer tick.Stop()
	for {
		if err := p.measure(ctx); err != nil && ctx.Err() == nil {
			p.opt.Logger.Debug("the log's pace was not measured", "error", err) // tried again at the next tick
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// measure measures once.
func (p *Pace) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, PaceEvery/2)
	defer cancel()
	state, err := p.opt.Log.State(ctx)
	if err != nil {
		return err
	}
	now := p.now()
	span := min(now.Sub(p.opt.Log.Created()), day)
	if span < leastAge {
		return nil
	}
	before := state.First - 1 // the day
	if span == day {
		if before, err = p.opt.SeqAt(ctx, now.Add(-day)); err != nil {
			return err
		}
	}
	var bytes float64
	if state.Messages > 0 && state.Last > before {
		bytes = float64(state.Last-before) * float64(state.Bytes) / float64(state.Messages)
	}
	perDay := uint64(bytes * float64(day) / float64(span))
	p.perDay.Store(&perDay)
	return nil
}

package integrity

import (
	"context"
	"errors"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// auditEvery is how often the whole log is read again: events that were folded
// long ago are not looked at otherwise, until a worker without them needs them.
const auditEvery = 24 * time.Hour

// keepAudited reads the log again and again, in the process that lengthens the
// witness, and raises the alarm at the first fault. The first time is a while
// after the start, when whoever waited for it has what they need.
func (m *Monitor) keepAudited(ctx context.Context) {
	first := m.opt.Every
	wait := time.NewTimer(first)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}
		wait.Reset(first)
		if m.opt.Leads() && m.Audit(ctx) {
			wait.Reset(max(first, auditEvery))
		}
	}
}

// Audit reads the log once, up to where it is folded, and raises the alarm at the
// first fault. It is false when the log could not be read whole. Where another worker
// compacts the log meanwhile, it begins again at the origin.
func (m *Monitor) Audit(ctx context.Context) bool {
	for {
		begin, origin := projector.Beginning(m.opt.Log)
		err := m.auditFrom(ctx, begin, origin)
		if Damaged(err) {
			m.opt.Alarm.Raise(err)
		}
		now, _ := projector.Beginning(m.opt.Log)
		if !errors.As(err, new(*streams.CompactedError)) || now.Seq == begin.Seq {
			return err == nil
		}
	}
}

func (m *Monitor) auditFrom(ctx context.Context, begin projector.Chain, origin []streams.Link) error {
	// Links that were written since the start are compared as they come.
	last := m.opt.Fold.Applied()
	worked := time.Now()
	_, err := projector.Audit(ctx, m.opt.Log, begin, last, append(origin, m.opt.Witness.Links()...), func(uint64) {
		_ = backoff.Sleep(ctx, auditRest(time.Since(worked)))
		worked = time.Now()
	})
	return err
}

// auditRest is how long others have the disk after it was read for a while: four
// fifths of the time. A process that was stopped meanwhile read less.
func auditRest(worked time.Duration) time.Duration {
	const times, most = 4, 10 * time.Second
	return min(times*worked, most)
}

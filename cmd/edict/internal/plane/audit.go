package plane

import (
	"context"
	"time"

	"github.com/edictdev/edict/internal/projector"
)

// auditEvery is how often the whole log is read again: events that were folded
// long ago are not looked at otherwise, until a worker without them needs them.
const auditEvery = 24 * time.Hour

// auditLog reads the log again and again, in the process that writes the
// witness, and raises the alarm at the first fault. The first time is a minute
// after the start, when whoever waited for it has what they need.
func (p *Plane) auditLog(ctx context.Context) {
	first := p.witnessEvery()
	wait := time.NewTimer(first)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}
		wait.Reset(first)
		if p.leads() && p.auditOnce(ctx) {
			wait.Reset(max(first, auditEvery))
		}
	}
}

// auditOnce is false when the log could not be read whole.
func (p *Plane) auditOnce(ctx context.Context) bool {
	// Links that were written since the start are compared as they come.
	last := p.store.Applied()
	worked := time.Now()
	_, err := projector.Audit(ctx, p.stream, p.stream.First(), last, p.links, func(uint64) {
		select {
		case <-time.After(auditRest(time.Since(worked))):
		case <-ctx.Done():
		}
		worked = time.Now()
	})
	if damaged(err) {
		p.guard.raise(err)
	}
	return err == nil
}

// auditRest is how long others have the disk after it was read for a while: four
// fifths of the time. A process that was stopped meanwhile read less.
func auditRest(worked time.Duration) time.Duration {
	const times, most = 4, 10 * time.Second
	return min(times*worked, most)
}

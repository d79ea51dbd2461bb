package convergence

import (
	"context"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// When reports are swept, and how long one is left that names no node: it may be of a node whose
// registration is on its way.
const (
	firstSweep  = 10 * time.Minute
	sweepEvery  = 24 * time.Hour
	unknownTime = time.Hour
)

// sweeper removes reports from where a tracker reads them.
type sweeper struct{ *Tracker }

// daily forgets, in the worker that leads, what nodes said that are gone: machines come and
// go, and the stream would keep a last report of each for ever, which every start reads.
func (t sweeper) daily(ctx context.Context) {
	if t.opt.Leads == nil {
		return
	}
	due := time.NewTimer(firstSweep)
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		due.Reset(sweepEvery)
		if !t.opt.Leads() {
			continue
		}
		switch forgotten, err := t.sweep(ctx, time.Now()); {
		case err != nil && ctx.Err() == nil:
			t.log.Warn("the reports of nodes that are gone cannot be removed; trying again in a day", "nodes", forgotten, "error", err)
		case forgotten > 0:
			t.log.Info("removed the reports of nodes that are gone", "nodes", forgotten)
		}
	}
}

// sweep forgets the reports that name no node and came long before now. The last one in the
// stream stays: a worker that starts has read the reports once it has read that one.
func (t sweeper) sweep(ctx context.Context, now time.Time) (forgotten int, err error) {
	t.mu.Lock()
	reports := t.reports
	t.mu.Unlock()
	if reports == nil {
		return 0, &NotReadyError{}
	}
	state, err := reports.State(ctx)
	if err != nil || state.Messages == 0 {
		return 0, err
	}
	if err := t.reach(ctx, 0); err != nil {
		return 0, err
	}
	for batch, err := range reports.Follow(ctx, 1) {
		if err != nil {
			return forgotten, err
		}
		for len(batch) > 0 {
			n := min(chunk, len(batch))
			for _, m := range t.nobodys(batch[:n], now.Add(-unknownTime), state.Last) {
				if err := reports.Forget(ctx, m.Subject, m.Seq); err != nil {
					return forgotten, err
				}
				forgotten++
			}
			if batch[n-1].Seq >= state.Last {
				return forgotten, nil
			}
			batch = batch[n:]
		}
	}
	return forgotten, ctx.Err()
}

// nobodys are the reports, before end and older than a moment, that name no node.
func (t sweeper) nobodys(list []streams.Message, before time.Time, end uint64) (of []streams.Message) {
	t.opt.Model.Read(func(v *projector.View) {
		for _, m := range list {
			if m.Seq >= end || !m.Time.Before(before) {
				continue
			}
			if id, err := streams.ReportNode(m.Subject); err == nil {
				if _, known := v.NodeSummary(id); known {
					continue
				}
			}
			of = append(of, m)
		}
	})
	return of
}

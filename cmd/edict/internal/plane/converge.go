package plane

import (
	"context"

	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/streams"
)

// newTracker follows what nodes report. Their stream is opened when it runs: a
// plane serves without it.
func (p *Plane) newTracker(metrics convergence.Metrics) *convergence.Tracker {
	return convergence.New(convergence.Options{
		Model: p.store, Events: p.stream, Metrics: metrics, Log: p.log,
		Open: func(ctx context.Context) (convergence.Reports, error) {
			r, err := streams.OpenReports(ctx, p.conn)
			if err != nil {
				return nil, err
			}
			return r, nil
		},
	})
}

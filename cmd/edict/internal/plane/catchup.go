package plane

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// catchUp keeps the read model up with the log. One that is far behind, as that of
// a new worker is, is first rebuilt in bulk; caught is called when it has come
// as far as the log went at the start. What nodes hear before would be
// overtaken batch by batch, and compared anew each time.
func (p *Plane) catchUp(ctx context.Context, caught func()) error {
	log := p.backpressured()
	var state streams.State
	err := streams.UntilAnswered(ctx, func() (err error) {
		state, err = p.stream.State(ctx)
		return err
	})
	if err == nil && state.Last >= p.store.Applied()+p.farBehind() {
		err = p.rebuildInPlace(ctx, log, state.Last)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fold the log: %w", err)
	}
	caught()
	return p.store.Run(ctx, log)
}

func (p *Plane) farBehind() uint64 {
	if p.opt.farBehind > 0 {
		return p.opt.farBehind
	}
	return projector.FarBehind
}

func (p *Plane) rebuildInPlace(ctx context.Context, log projector.Log, last uint64) error {
	p.log.Info("rebuilding the read model", "folded", p.store.Applied(), "of", last)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.store.Rebuild(ctx, log, last) })
	g.Go(func() error { return datadir.TellProgress(ctx, p.store, last, p.log) })
	return g.Wait()
}

// backpressured is the log as the fold follows it.
func (p *Plane) backpressured() disk.BackpressuredLog {
	return disk.BackpressuredLog{Log: p.stream, Guard: p.disk}
}

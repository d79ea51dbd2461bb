package plane

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/projector"
)

// errStopped ends the parts below the API once it has stopped.
var errStopped = errors.New("stopped")

// Run runs the plane until ctx ends, or a part cannot go on. The API stops
// first, while the parts its last requests wait for still work.
func (p *Plane) Run(ctx context.Context) error {
	if err := p.sayEnd(); err != nil {
		return err
	}
	return p.noteEnd(p.run(ctx))
}

func (p *Plane) run(ctx context.Context) error {
	g, parts := errgroup.WithContext(context.WithoutCancel(ctx))
	front, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(parts, cancel)
	context.AfterFunc(parts, p.disk.Release)
	for _, part := range p.parts() {
		g.Go(func() error { return part(parts) })
	}
	p.runFold(parts, g)
	g.Go(func() error { return p.announceReady(front) })
	g.Go(func() error { return p.serve(front, p.listeners.Admin, p.admin, adminConnections()) })
	g.Go(func() error {
		if p.opt.NoAPI {
			<-front.Done()
			return errStopped
		}
		if err := p.serve(front, p.listeners.HTTP, p.handler, apiConnections()); err != nil {
			return err
		}
		return errStopped
	})
	if err := g.Wait(); !errors.Is(err, errStopped) {
		return err
	}
	p.monitor.Finish(ctx)
	return nil
}

// parts run from the beginning on, until their context ends.
func (p *Plane) parts() []func(context.Context) error {
	all := []func(context.Context) error{
		p.disk.Run, p.pace.Run, p.auth.Run, p.readModel.Run, p.worker.Run, p.keys.Run, p.quota.Run, p.tracker.Run, p.fleet.Run, p.rollouts.Run, p.checkpoints.Run, p.history.Run,
		projector.Reporter{Store: p.store, To: p.rejected, Log: p.log, Held: p.held}.Run,
		func(ctx context.Context) error { return p.admitter.Run(ctx, p.store.Changed) },
	}
	if p.server != nil {
		all = append(all,
			func(ctx context.Context) error { return p.disk.WatchFiles(ctx, p.server.Vanished, p.alarm.Raise) },
			func(ctx context.Context) error { return p.auth.Expel(ctx, p.server) })
	}
	if p.decided != nil {
		all = append(all, p.decided.Run)
	}
	if p.opt.Busy != nil {
		all = append(all, func(ctx context.Context) error { return watchBusy(ctx, p.store.Applied, p.store.Changed, p.opt.Busy) })
	}
	return all
}

// runFold folds the log, and once that has come as far as the log went at the
// start, serves nodes.
func (p *Plane) runFold(ctx context.Context, g *errgroup.Group) {
	caught := make(chan struct{})
	g.Go(func() error {
		return p.monitor.Run(ctx, func(ctx context.Context) error {
			return p.readModel.CatchUp(ctx, p.store, p.opt.farBehind, func() { close(caught) })
		})
	})
	g.Go(func() error {
		select {
		case <-caught:
			p.worker.CaughtUp()
			answerer := projector.Answerer{Store: p.store, Log: p.stream, From: p.conn, Confirmed: p.monitor.Confirmed}
			g.Go(func() error { return answerer.Run(ctx) })
			return p.relay.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
}

// serve serves handler on l, which may be nil, until ctx ends. It holds most connections at
// most: each is an open file, and the store, the log and NATS need some, too.
func (p *Plane) serve(ctx context.Context, l net.Listener, handler http.Handler, most int) error {
	if l == nil {
		return nil
	}
	server := api.Server{Handler: handler, Trace: p.log, TLS: p.auth.TLS(), Connections: most}
	return server.Run(ctx, l)
}

// Ready says why the plane cannot serve now; nil: it can.
func (p *Plane) Ready(ctx context.Context) error {
	if p.opt.NoAPI {
		return p.relay.Ready()
	}
	return api.Ready(ctx, p.handler, listener.Addr(p.listeners.HTTP))
}

// assignPatience is how long a process that answers waits, before it calls itself
// ready, for the partitions it publishes to be its own or another's. It serves
// meanwhile.
const assignPatience = 5 * time.Second

// announceReady says once that everything answers, and logs how far a long start
// has come.
func (p *Plane) announceReady(ctx context.Context) error {
	began := time.Now()
	ready := func(ctx context.Context) error {
		err := p.Ready(ctx)
		if err == nil && time.Since(began) < assignPatience {
			err = p.worker.Unassigned()
		}
		return err
	}
	waiting := func(err error) { p.log.Info("starting", "applied", p.store.Applied(), "detail", err.Error()) }
	if api.AwaitReady(ctx, ready, waiting) && p.opt.Ready != nil {
		p.opt.Ready(p.Addresses())
	}
	return nil
}

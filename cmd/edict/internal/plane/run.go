package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/api"
)

// errStopped ends the parts below the API once it has stopped.
var errStopped = errors.New("stopped")

// Run runs the plane until ctx ends, or a part cannot go on. The API stops
// first, while the parts its last requests wait for still work.
func (p *Plane) Run(ctx context.Context) error {
	g, parts := errgroup.WithContext(context.WithoutCancel(ctx))
	front, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(parts, cancel)

	context.AfterFunc(parts, p.disk.Release)
	g.Go(func() error { return p.disk.Run(parts) })
	g.Go(func() error { return p.watchPlace(parts) })
	caught, caughtUp := context.WithCancel(parts)
	defer caughtUp()
	g.Go(func() error {
		return p.monitor.Run(parts, func(ctx context.Context) error { return p.catchUp(ctx, caughtUp) })
	})
	g.Go(func() error {
		<-caught.Done()
		p.caught.Store(parts.Err() == nil)
		return p.relay.Run(parts)
	})
	g.Go(func() error { return p.readModel.Run(parts) })
	g.Go(func() error { return p.workers.Run(parts) })
	g.Go(func() error { return p.keepMarks(parts) })
	g.Go(func() error { return p.report(parts) })
	g.Go(func() error { return p.expel(parts) })
	g.Go(func() error { return p.watchShares(parts) })
	g.Go(func() error { return p.keys.Run(parts) })
	g.Go(func() error { return p.tracker.Run(parts) })
	g.Go(func() error { return p.admitter.Run(parts, p.store.Changed) })
	g.Go(func() error { return p.keepDecisions(parts) })
	g.Go(func() error { return p.keepSnapshots(parts) })
	g.Go(func() error { return p.announceReady(front) })
	if p.entrance.admin != nil {
		g.Go(func() error {
			server := api.Server{Handler: p.entrance.handler, Trace: p.log, TLS: p.entrance.tls}
			return server.Run(front, p.entrance.admin)
		})
	}
	g.Go(func() error {
		if p.opt.NoAPI {
			<-front.Done()
			return errStopped
		}
		server := api.Server{Handler: p.handler, Trace: p.log, TLS: p.entrance.tls}
		if err := server.Run(front, p.listener); err != nil {
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

// ready says why the plane cannot serve now.
func (p *Plane) ready(ctx context.Context) (err error) {
	if p.opt.NoAPI {
		return p.relay.Ready()
	}
	// In the process itself: the listener is open, and whom its certificate names is
	// for others to verify.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	req.Host = p.listener.Addr().String()
	req.RemoteAddr = req.Host
	defer func() { // as a server does with who left: ctx ended
		switch r := recover(); r {
		case nil:
		case http.ErrAbortHandler:
			err = http.ErrAbortHandler
		default:
			panic(r)
		}
	}()
	answer := statusRecorder{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(&answer, req)
	if answer.status != http.StatusOK {
		return fmt.Errorf("%d %s: %s", answer.status, http.StatusText(answer.status), answer.body.String())
	}
	return nil
}

// statusRecorder takes an answer of the handler.
type statusRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *statusRecorder) Header() http.Header         { return r.header }
func (r *statusRecorder) WriteHeader(status int)      { r.status = status }
func (r *statusRecorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// settling is how long a process that answers waits, before it calls itself
// ready, for the partitions it publishes to be its own or another's. It serves
// meanwhile.
const settling = 5 * time.Second

// settled says which partition is not published by anybody yet.
func (p *Plane) settled() error {
	if !p.publishes() {
		return nil
	}
	for _, x := range p.workers.Publishing() {
		if p.opt.Announce != nil && !slices.Contains(p.opt.Announce, x.Partition) {
			continue
		}
		if x.Owner == "" {
			return fmt.Errorf("partition %d is being taken", x.Partition)
		}
	}
	return nil
}

// announceReady asks until everything answers, and tells how far a long start
// has come.
func (p *Plane) announceReady(ctx context.Context) error {
	const (
		pause = 10 * time.Millisecond
		tell  = 2 * time.Second
	)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	began := time.Now()
	for told := began; ; {
		err := p.ready(ctx)
		if err == nil && time.Since(began) < settling {
			err = p.settled()
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			break
		}
		if time.Since(told) > tell {
			told = time.Now()
			p.log.Info("starting", "applied", p.store.Applied(), "detail", err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	if p.opt.Ready != nil {
		p.opt.Ready(p.Addresses())
	}
	return nil
}

// every calls do at each turn of a clock, until ctx ends or do says that it is
// done with: false.
func every(ctx context.Context, turn time.Duration, do func() (again bool)) {
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !do() {
				return
			}
		}
	}
}

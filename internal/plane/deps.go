package plane

import (
	"context"
	"errors"
	"time"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// deps are the parts the API stands on.
func (p *Plane) deps() api.Deps {
	d := api.Deps{
		Log: p.stream, Model: p.store, Relay: p.relay, Tables: p.tables,
		Convergence: p.tracker, Fleet: p.fleet, Admission: p.admitter,
		AccessDeps: api.AccessDeps{Failures: p.failures, Local: !p.opt.Access.Exposable()},
		StatusDeps: api.StatusDeps{
			Name: p.opt.Name, Durability: p.conn.Durability, Past: p.store.PastStatus, Witnessed: p.witness.Last, Origin: p.stream.Origin,
			LogPerDay: p.pace.PerDay, LogRoom: p.disk.LogRoom, DiskFree: p.disk.Free,
			Storage:    func() projector.StorageStatus { return projector.StorageOf(p.store) },
			JetStream:  func(ctx context.Context) (streams.Usage, error) { return streams.UsageOf(ctx, p.conn) },
			Partitions: p.worker.Partitions, Workers: p.worker.List,
			Checks: []api.Check{
				{Name: "nats", Probe: connected(p.conn)},
				{Name: "chain", Probe: p.alarm.Check},
				{Name: "writes", Probe: p.stream.Writable},
				{Name: "settings", Probe: advice(p.monitor.Settings)},
				{Name: "replicas", Probe: advice(p.monitor.Replicas)},
				{Name: "origin", Probe: advice(p.monitor.Origin)},
			},
		},
		HistoryDeps: api.HistoryDeps{
			History: p.history, Event: p.stream.Get, NextOf: p.stream.NextOf, Trail: api.TrailOf(p.stream, p.marker),
			SeqAt: func(ctx context.Context, at time.Time) (uint64, error) { return snapshot.MomentOf(ctx, p.stream, at) },
		},
		CheckpointDeps: api.CheckpointDeps{SaveSnapshot: p.checkpoints.Save, ListSnapshots: p.checkpoints.List, Compact: p.compactor.Compact},
		LimitDeps: api.LimitDeps{
			Writable: p.disk.Writable, Damaged: p.alarm.Raised, Held: p.held,
			ProjectBytes: p.opt.ProjectBytes, ShutOut: p.excess.Projects, MaxMessage: p.conn.MaxPayload(),
		},
		ObserveDeps: api.ObserveDeps{MetricsPage: p.page, Metrics: p.metrics, Trace: p.log},
	}
	url := streams.PublicURLs(p.url)
	if p.decisions != nil {
		d.Decisions = p.decisions
	}
	d.LogURL = func() string { return url }
	d.SignWith(p.keys, p.worker.Others)
	if p.registry != nil {
		d.Access, d.Limiter, d.Sessions, d.SignIn = p.registry, p.auth.Limiter(), p.sessions, p.auth.SignIn
	}
	if p.opt.Tracing != nil {
		d.Tracer = p.opt.Tracing
	}
	return d
}

func connected(conn *streams.Conn) func(context.Context) error {
	return func(context.Context) error {
		if !conn.Connected() {
			return errors.New("not connected to NATS")
		}
		return nil
	}
}

// advice tells of what somebody should see to.
func advice(of func() error) func(context.Context) error {
	return func(context.Context) error {
		if err := of(); err != nil {
			return &api.AdviceError{Err: err}
		}
		return nil
	}
}

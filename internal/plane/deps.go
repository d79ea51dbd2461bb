package plane

import (
	"context"
	"errors"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
)

// deps are the parts the API stands on.
func (p *Plane) deps() api.Deps {
	d := api.Deps{
		Log: p.stream, Model: p.store, Relay: p.relay, Tables: p.tables,
		Name: p.opt.Name, Durability: p.conn.Durability, MaxMessage: p.conn.MaxPayload(),
		Partitions: p.worker.Partitions, Workers: p.worker.List,
		Event: p.stream.Get, NextOf: p.stream.NextOf, Trail: api.TrailOf(p.stream, p.marker),
		Past: p.store.PastStatus, Writable: p.disk.Writable, ProjectBytes: p.opt.ProjectBytes,
		SaveSnapshot: p.checkpoints.Save, ListSnapshots: p.checkpoints.List,
		Convergence: p.tracker, Admission: p.admitter,
		Damaged: p.alarm.Raised, Held: p.held, Witnessed: p.witness.Last,
		Checks:   []api.Check{{Name: "nats", Probe: connected(p.conn)}, {Name: "chain", Probe: p.alarm.Check}},
		Failures: p.failures, MetricsPage: p.page, Metrics: p.metrics, Trace: p.log,
	}
	url := streams.PublicURLs(p.url)
	d.LogURL = func() string { return url }
	d.SignWith(p.keys, p.worker.Others)
	if p.registry != nil {
		d.Access, d.Limiter = p.registry, p.auth.Limiter()
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

package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// failuresPerSecond is how often credentials may be shown in vain from one
// address.
const failuresPerSecond = 5

// deps are the parts the API stands on.
func (p *Plane) deps(metrics *api.Metrics, page http.Handler) api.Deps {
	d := api.Deps{
		Log: p.stream, Model: p.store, Relay: p.relay, Tables: p.tables,
		Name:       p.opt.Name,
		Durability: p.conn.Durability,
		Partitions: p.partitions,
		Workers:    p.workersNow,
		Keys:       p.keysNow,
		Checks: []api.Check{{Name: "nats", Probe: func(context.Context) error {
			if !p.conn.Connected() {
				return errors.New("not connected to NATS")
			}
			return nil
		}}, {Name: "chain", Probe: func(context.Context) error { return p.alarm.Raised() }}},
		MetricsPage: page, Metrics: metrics, Trace: p.log,
	}
	d.LogURL, d.RotateKey, d.Past = p.logURL, p.rotateKey, p.store.PastStatus
	d.SaveSnapshot, d.ListSnapshots = p.saveSnapshot, p.listSnapshots
	d.Writable, d.Trail = p.disk.Writable, p.trail
	d.ProjectBytes = p.opt.ProjectBytes
	if p.entrance.registry != nil {
		d.Access, d.Limiter = p.entrance.registry, p.entrance.limiter
	}
	d.Signer = func() (current, previous api.Signer) {
		keys, _ := p.keys.Ring().Now()
		if keys.Previous != nil {
			previous = keys.Previous
		}
		return keys.Current, previous
	}
	d.Failures = p.entrance.failures
	d.Event, d.NextOf, d.MaxMessage = p.stream.Get, p.stream.NextOf, p.conn.MaxPayload()
	d.Convergence, d.Admission = p.tracker, p.admitter
	d.Damaged, d.Held, d.Witnessed = p.alarm.Raised, p.held, p.witness.Last
	if p.opt.Tracing != nil {
		d.Tracer = p.opt.Tracing
	}
	return d
}

// partitions are who publishes each, and up to where.
func (p *Plane) partitions() ([]resource.Partition, error) {
	names, own := p.workerNames(), p.relay.Published()
	all := p.workers.Publishing()
	out := make([]resource.Partition, len(all))
	for i, x := range all {
		out[i] = resource.Partition{ID: x.Partition, Publisher: names[x.Owner], UpTo: max(x.UpTo, own[x.Partition])}
	}
	return out, nil
}

// leads reports whether this process does what one of the workers does: it is
// the one that publishes partition 0.
func (p *Plane) leads() bool { return p.workers.Publishing()[0].Owner == p.owner }

// checkAddresses refuses to serve whoever is not on this machine unless it is
// known who may do what, and nobody listens in (docs/design.md#http).
func (p *Plane) checkAddresses() error {
	if p.opt.Access.exposable() {
		return nil
	}
	if p.opt.Access.Admin != "" {
		if err := checkLoopback(p.opt.Access.Admin); err != nil {
			return err
		}
	}
	if !p.opt.NoAPI {
		if err := checkLoopback(p.opt.HTTP); err != nil {
			return err
		}
	}
	if p.opt.NATS != "" || p.opt.NATSListen == "" || p.opt.NATSListen == "none" {
		return nil
	}
	return checkLoopback(p.opt.NATSListen)
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return &AddressError{fmt.Sprintf("listen address %q: want host:port, such as 127.0.0.1:8080", addr)}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &AddressError{(&api.ExposedError{Addr: addr}).Error()}
	}
	return nil
}

// AddressError is an address the plane does not listen on.
type AddressError struct{ Detail string }

// Error says what to give instead.
func (e *AddressError) Error() string { return e.Detail }

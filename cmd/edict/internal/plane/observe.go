package plane

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
)

// newMetrics is what the plane counts, and the page that shows it.
func (p *Plane) newMetrics() (*api.Metrics, http.Handler) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := api.NewMetrics(reg)
	m.Build(p.opt.Version)
	m.Durability(p.conn.Durability())
	return m, promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// foldMetrics is what the fold reports to.
func (p *Plane) foldMetrics(m *api.Metrics) projector.Metrics {
	out := m.Projector()
	if p.opt.Tracing != nil {
		out.Traced = p.opt.Tracing.Folded
	}
	return out
}

// told hears of rounds that tell nodes of traced events; nil: nobody does.
func (p *Plane) told() func(relay.Traced) {
	if p.opt.Tracing == nil {
		return nil
	}
	return p.opt.Tracing.Told
}

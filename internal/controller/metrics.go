package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what a controller shows.
type Metrics struct {
	leading          prometheus.Gauge
	nodes, policies  prometheus.Gauge
	written          *prometheus.CounterVec
	failures         *prometheus.CounterVec
	leftOut          *prometheus.CounterVec
	incomplete, wide prometheus.Gauge
	lag              prometheus.Histogram
}

// NewMetrics registers them; nil: they are nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		leading:    f.NewGauge(prometheus.GaugeOpts{Name: "edict_controller_leading", Help: "1 while this controller holds the Lease and writes."}),
		nodes:      f.NewGauge(prometheus.GaugeOpts{Name: "edict_controller_nodes", Help: "Nodes of the plane that pods and machines of the cluster became."}),
		policies:   f.NewGauge(prometheus.GaugeOpts{Name: "edict_controller_policies", Help: "Policies of the plane that the cluster's policies became."}),
		written:    f.NewCounterVec(prometheus.CounterOpts{Name: "edict_controller_writes_total", Help: "Nodes and policies that were written or removed, each an event of the log."}, []string{"kind"}),
		failures:   f.NewCounterVec(prometheus.CounterOpts{Name: "edict_controller_failures_total", Help: "What failed and was tried again later: the plane, the API server or a watch."}, []string{"what"}),
		leftOut:    f.NewCounterVec(prometheus.CounterOpts{Name: "edict_controller_left_out_total", Help: "Labels, addresses, nodes and policies that the plane does not take; the log names each."}, []string{"kind"}),
		incomplete: f.NewGauge(prometheus.GaugeOpts{Name: "edict_controller_policies_incomplete", Help: "Objects of which something cannot be expressed; their conditions or Events say what."}),
		wide:       f.NewGauge(prometheus.GaugeOpts{Name: "edict_controller_policies_held", Help: "Objects that cannot be expressed without letting more through; what they said before is kept."}),
		lag: f.NewHistogram(prometheus.HistogramOpts{
			Name: "edict_controller_lag_seconds", Help: "From the moment a watch told of a change until the plane had it.",
			Buckets: []float64{.05, .1, .2, .3, .5, 1, 2, 5, 10, 30, 60},
		}),
	}
	m.failures.WithLabelValues("watch") // the metric is there before the first failure
	return m
}

func (m *Metrics) leads(yes bool) {
	m.leading.Set(0)
	if yes {
		m.leading.Set(1)
	}
}

func (m *Metrics) failed(what string)       { m.failures.WithLabelValues(what).Inc() }
func (m *Metrics) left(kind string)         { m.leftOut.WithLabelValues(kind).Inc() }
func (m *Metrics) wrote(kind string, n int) { m.written.WithLabelValues(kind).Add(float64(n)) }
func (m *Metrics) translated(items, held int) {
	m.incomplete.Set(float64(items))
	m.wide.Set(float64(held))
}

// caughtUp observes changes that the plane has now.
func (m *Metrics) caughtUp(since map[string]time.Time) {
	for _, at := range since {
		m.lag.Observe(time.Since(at).Seconds())
	}
}

package api

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewMetricsPage is what a process counts, of itself too, and the page that shows
// it.
func NewMetricsPage(version, durability string) (*Metrics, http.Handler) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := NewMetrics(reg)
	m.Build(version)
	m.Durability(durability)
	return m, promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

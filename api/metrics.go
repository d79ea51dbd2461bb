package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/edictdev/edict/projector"
)

// Metrics is everything the plane counts. Its methods name what happened, so
// the parts that report it never see a label, and no label names a node, a
// policy or a project: their number has no bound.
type Metrics struct {
	head       prometheus.Gauge
	durability *prometheus.GaugeVec

	foldEvents  prometheus.Counter
	foldSeconds prometheus.Counter
	rejected    *prometheus.CounterVec

	announced prometheus.Counter
	batch     prometheus.Histogram
	conflicts prometheus.Counter
	clients   prometheus.Gauge
	resumes   *prometheus.CounterVec
	delivered prometheus.Histogram

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	reg prometheus.Registerer
}

// NewMetrics registers the collectors with reg; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "edict", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: "edict", Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "edict", Name: name, Help: help}, labels)
	}
	opts := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "edict", Name: name, Help: help, Buckets: buckets}
	}
	latency := prometheus.ExponentialBuckets(0.0005, 2, 16) // 0.5 ms to 16 s
	return &Metrics{
		head: gauge("log_head_sequence", "Last sequence of the log, as this process last read it. Applied below it is lag."),
		durability: f.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "edict", Name: "durability_info",
			Help: "1 for the durability that the log's server reports: strict survives power loss, relaxed may lose the last writes.",
		}, []string{"mode"}),
		foldEvents:  counter("fold_events_total", "Events of the log that this process has folded."),
		foldSeconds: counter("fold_seconds_total", "Time spent folding, commits included. Over fold_events it is the cost of an event."),
		rejected:    counters("rejected_events_total", "Events that the fold refused, by code. Any is a producer that went past the API.", "code"),
		announced:   counter("announcements_total", "Announcements that this process put into the node stream."),
		batch: f.NewHistogram(opts("announcement_batch_messages", "Messages of an atomic batch of announcements, fences included.",
			prometheus.ExponentialBuckets(1, 4, 8))),
		conflicts: counter("fence_conflicts_total", "Batches that a fence refused or that were not acknowledged. Steady growth is two owners of one partition."),
		clients:   gauge("sse_clients", "Nodes with an open event stream on this process."),
		resumes:   counters("sse_resumes_total", "Event streams opened, by where the missed events came from.", "source"),
		delivered: f.NewHistogram(opts("commit_to_delivered_seconds",
			"From an event's commit to the log until its announcement was written to a live node.", latency)),
		requests: counters("http_requests_total", "Requests answered, by route and status.", "route", "method", "status"),
		seconds: f.NewHistogramVec(opts("http_request_duration_seconds",
			"Time to answer a request; event streams are left out.", latency), []string{"route", "method"}),
		reg: reg,
	}
}

// Watch exposes what a read model knows whenever somebody asks.
func (m *Metrics) Watch(model Model) {
	f := promauto.With(m.reg)
	gauge := func(name, help string, read func(v *projector.View) int) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "edict", Name: name, Help: help}, func() (n float64) {
			model.Read(func(v *projector.View) { n = float64(read(v)) })
			return n
		})
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "edict", Name: "log_applied_sequence",
		Help: "Last sequence of the log that this process has folded and committed.",
	},
		func() float64 { return float64(model.Applied()) })
	gauge("nodes", "Nodes that exist now.", func(v *projector.View) int { return v.Counts().Nodes })
	gauge("identities", "Distinct label sets of a project's nodes. The fold's cost grows with these, not with nodes.",
		func(v *projector.View) int { return v.Counts().Identities })
	gauge("policies", "Policies that exist now.", func(v *projector.View) int { return v.Counts().Policies })
	gauge("outbox_edges", "Changes kept for announcing, those already announced but not yet dropped among them.",
		func(v *projector.View) (n int) {
			for _, edges := range v.Counts().Edges {
				n += edges
			}
			return n
		})
}

// Durability notes what the log's server reports.
func (m *Metrics) Durability(mode string) {
	m.durability.Reset()
	m.durability.WithLabelValues(mode).Set(1)
}

// Folded notes a batch of the fold.
func (m *Metrics) Folded(events int, seconds float64) {
	m.foldEvents.Add(float64(events))
	m.foldSeconds.Add(seconds)
}

// Rejected notes an event the fold refused.
func (m *Metrics) Rejected(code string) { m.rejected.WithLabelValues(code).Inc() }

// Projector is what a projector reports to.
func (m *Metrics) Projector() projector.Metrics {
	return projector.Metrics{Folded: m.Folded, Rejected: m.Rejected}
}

// Announced notes an atomic batch of the node stream.
func (m *Metrics) Announced(announcements, messages int) {
	m.announced.Add(float64(announcements))
	m.batch.Observe(float64(messages))
}

// FenceConflict notes a batch that was refused, or never acknowledged.
func (m *Metrics) FenceConflict() { m.conflicts.Inc() }

// Clients notes an event stream that began (+1) or ended (-1).
func (m *Metrics) Clients(delta int) { m.clients.Add(float64(delta)) }

// Resumed notes where an event stream's past came from, one of a few sources.
func (m *Metrics) Resumed(source string) { m.resumes.WithLabelValues(source).Inc() }

// Delivered notes how long after its commit a change was written to a node.
func (m *Metrics) Delivered(after time.Duration) { m.delivered.Observe(after.Seconds()) }

func (m *Metrics) sawHead(seq uint64) { m.head.Set(float64(seq)) }

func (m *Metrics) answered(r *Route, status int, took time.Duration) {
	if status == 0 {
		status = http.StatusOK
	}
	method := r.Method
	if method == "" {
		method = "none" // no route: the client's words are no label
	}
	m.requests.WithLabelValues(r.Pattern, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(r.Pattern, method).Observe(took.Seconds())
}

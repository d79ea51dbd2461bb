package api

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/policy"
)

// Metrics is everything the plane counts. Its methods name what happened, so
// the parts that report it never see a label, and no label names a node, a
// policy or a project: their number has no bound.
type Metrics struct {
	head       atomic.Uint64 // last known of the log
	durability *prometheus.GaugeVec
	ended      *prometheus.GaugeVec

	foldEvents  prometheus.Counter
	foldSeconds prometheus.Counter
	rejected    *prometheus.CounterVec

	published prometheus.Counter
	skipped   prometheus.Counter
	dropped   prometheus.Counter
	beyond    prometheus.Counter
	clients   prometheus.Gauge
	open      atomic.Int64 // as clients
	resumes   *prometheus.CounterVec
	delivered prometheus.Histogram

	reports *prometheus.CounterVec
	applied prometheus.Histogram
	moves   *prometheus.CounterVec

	admission admissionMetrics

	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	reg prometheus.Registerer
}

// NewMetrics registers the collectors with reg; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	ended := newEnded(reg)
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
	m := &Metrics{
		ended: ended,
		durability: f.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "edict", Name: "durability_info",
			Help: "1 for the durability that the log's server reports: strict survives power loss, relaxed may lose the last writes.",
		}, []string{"mode"}),
		foldEvents:  counter("fold_events_total", "Events of the log that this process has folded. If the rate is below the log's, lag grows."),
		foldSeconds: counter("fold_seconds_total", "Time spent on the fold, commits included. Divided by edict_fold_events_total it is the time for one event."),
		rejected:    counters("rejected_events_total", "Events that the fold rejected, by code, of those that the log took within the hour before: a rebuild judges the whole past again. Most are mistakes of producers that do not use the API.", "code"),
		published:   counter("published_total", "Messages for nodes that this process published on NATS: one for each node that an event changes, if somebody is subscribed for it."),
		skipped:     counter("published_skipped_total", "Messages for nodes that this process did not publish, because nobody was subscribed."),
		dropped:     counter("hub_dropped_total", "Batches of changes that this process dropped because its event streams were too slow for them. The streams continue from the read model, so nothing is lost. If it grows steadily, the worker has too many streams."),
		beyond:      counter("resumes_beyond_log_total", "Nodes that came back with an event id beyond the log's end. If there is one, the log was restored from a backup or lost its tail, or a client invents ids."),
		clients:     gauge("sse_clients", "Event streams open on this process, one for each node that follows live. A sudden fall points to the network, a sudden rise to the restart of another worker."),
		resumes:     counters("sse_resumes_total", "Event streams that were opened and replays that were requested over NATS, by source. live: the node missed nothing. past: what it missed came from the read model.", "source"),
		delivered: f.NewHistogram(opts("commit_to_delivered_seconds",
			"From an event's commit to the log until its message was written to the event stream of a node that follows live: the age of what nodes apply.", latency)),
		reports: counters("reports_total", "Reports of what nodes applied, by outcome. Every worker receives every report, so do not add up workers. refused, stale and drift: the node says that something is not applied. malformed, unknown and ahead: the agent is at fault.", "outcome"),
		applied: f.NewHistogram(opts("commit_to_applied_seconds",
			"From the commit of a policy's change until the report of a node proved that the node applied it, once for each node and change. Every worker receives every report.", prometheus.ExponentialBuckets(0.005, 2, 20))), // 5 ms to 44 min
		moves:    counters("rollout_moves_total", "Events by which this process moved a rollout and that the fold accepted, by type. policy_wave_opened: the gate of a wave was met. policy_rollout_stopped: too many nodes refused it.", "event"),
		requests: counters("http_requests_total", "Requests that were answered, by route and status. 499: the client left before the answer. 503: the worker is behind or starting. 507: the disk is nearly full. 500: a fault of Edict.", "route", "method", "status"),
		seconds: f.NewHistogramVec(opts("http_request_duration_seconds",
			"Time to answer a request, without event streams. A write waits for the disk and for its verdict.", latency), []string{"route", "method"}),
		refused:   counters("credentials_refused_total", "Credentials that were refused over HTTP and NATS, by reason. unknown: no principal has them. too_many: they were not looked up, because their address had failed too often. A steady rate is a client that guesses, or an agent whose token was revoked.", "reason"),
		admission: newAdmissionMetrics(f),
		reg:       reg,
	}
	// A series that appears with its first count hides that count from rate().
	for _, code := range foldCodes {
		m.rejected.WithLabelValues(code)
	}
	for _, outcome := range convergence.Outcomes {
		m.reports.WithLabelValues(outcome)
	}
	for _, event := range []string{policy.TypeWaveOpened, policy.TypeRolloutStopped} {
		m.moves.WithLabelValues(event)
	}
	for _, source := range []string{relay.SourceLive, relay.SourcePast} {
		m.resumes.WithLabelValues(source)
	}
	for _, reason := range access.Refusals {
		m.refused.WithLabelValues(reason)
	}
	return m
}

// foldCodes is every code of a rejected event (docs/events.md#what-becomes-of-an-event).
var foldCodes = []string{
	policy.Undecodable, policy.UnknownType, policy.Invalid, projector.CodeSubjectMismatch,
	projector.CodeRevisionConflict, projector.CodePolicyIDUsed, projector.CodePolicySlugTaken, projector.CodePolicyNotOwned,
	projector.CodePolicyLimit, projector.CodeNodeIDTaken, projector.CodeStaleEvent, projector.CodeNameTaken, projector.CodePriorityTaken,
	projector.CodeVersionNotNewer, projector.CodeSignerNotTrusted, projector.CodeBadSignature,
	projector.CodeRolloutUnderWay, projector.CodeNotStaged, projector.CodeNoRollout, projector.CodeWaveConflict, projector.CodeQuotaExceeded, projector.CodeProjectArchived, projector.CodeProjectInUse,
	projector.CodeTokenConsumed, projector.CodeTokenExpired, projector.CodeTokenRevoked, projector.CodeNonceCollision,
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

// rejectedLately is how old an event may be for its rejection to be news, as EdictEventsRejected
// says to whom it calls.
const rejectedLately = time.Hour

// Rejected notes an event the fold refused, and when the log stored it.
func (m *Metrics) Rejected(code string, stored time.Time) {
	if time.Since(stored) < rejectedLately {
		m.rejected.WithLabelValues(code).Inc()
	}
}

// Projector is what a projector reports to.
func (m *Metrics) Projector() projector.Metrics {
	return projector.Metrics{Folded: m.Folded, Rejected: m.Rejected}
}

// Published notes messages for nodes on NATS, and those that nobody would have
// heard.
func (m *Metrics) Published(messages, skipped int) {
	m.published.Add(float64(messages))
	m.skipped.Add(float64(skipped))
}

// HubDropped notes batches that the hub could not keep.
func (m *Metrics) HubDropped(batches int) { m.dropped.Add(float64(batches)) }

// Beyond notes a node that stands beyond the log's end.
func (m *Metrics) Beyond() { m.beyond.Inc() }

// Clients notes an event stream that began (+1) or ended (-1).
func (m *Metrics) Clients(delta int) {
	m.open.Add(int64(delta))
	m.clients.Add(float64(delta))
}

// Streams is how many event streams are open.
func (m *Metrics) Streams() int { return int(m.open.Load()) }

// Resumed notes where an event stream's past came from, one of a few sources.
func (m *Metrics) Resumed(source string) { m.resumes.WithLabelValues(source).Inc() }

// Delivered notes how long after its commit a change was written to a node.
func (m *Metrics) Delivered(after time.Duration) { m.delivered.Observe(after.Seconds()) }

// Reported notes a node's report and what it is, one of a few outcomes.
func (m *Metrics) Reported(outcome string) { m.reports.WithLabelValues(outcome).Inc() }

// Applied notes how long after its commit a change was proven applied by a node.
func (m *Metrics) Applied(after time.Duration) { m.applied.Observe(after.Seconds()) }

// RolloutMoved implements rollout.Metrics.
func (m *Metrics) RolloutMoved(event string) { m.moves.WithLabelValues(event).Inc() }

// CredentialsRefused notes credentials that were shown in vain and why they were
// refused, one of access.Refusals.
func (m *Metrics) CredentialsRefused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// sawHead notes a sequence that the log has reached.
func (m *Metrics) sawHead(seq uint64) {
	for {
		have := m.head.Load()
		if seq <= have || m.head.CompareAndSwap(have, seq) {
			return
		}
	}
}

// awaited shows that a route has answered with no fault so far: the series is there before
// the first, as NewMetrics says why.
func (m *Metrics) awaited(r *Route) {
	m.requests.WithLabelValues(r.Pattern, r.Method, strconv.Itoa(http.StatusInternalServerError))
}

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

package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/edictdev/edict/internal/admission"
)

// admissionMetrics is what is counted of admission.
type admissionMetrics struct {
	requests  *prometheus.CounterVec
	decisions *prometheus.CounterVec
	policies  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	compiled  prometheus.Histogram
	version   prometheus.Gauge
}

func newAdmissionMetrics(f promauto.Factory) admissionMetrics {
	fast := prometheus.ExponentialBuckets(0.00001, 2.5, 14) // 10 µs to 1.5 s
	m := admissionMetrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Namespace: "edict", Name: "admission_requests_total",
			Help: "Requests that went through the admission policies, by outcome. error and timeout: a policy is at fault. busy: the plane already evaluates as many requests as it may.",
		}, []string{"outcome"}),
		decisions: f.NewCounterVec(prometheus.CounterOpts{
			Namespace: "edict", Name: "admission_decisions_total",
			Help: "Decisions for the decision log, by result; none where --decision-log is off. dropped: they came faster than they could be written, or while the disk was nearly full. failed: the stream did not take them.",
		}, []string{"result"}),
		policies: f.NewCounterVec(prometheus.CounterOpts{
			Namespace: "edict", Name: "admission_policies_total",
			Help: "Evaluations of admission policies, by outcome. Policies in shadow mode count, too.",
		}, []string{"outcome"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "edict", Name: "admission_policy_seconds", Buckets: fast,
			Help: "Time to evaluate one admission policy, by its level. Near 0.1 the policy is about to make requests fail.",
		}, []string{"level"}),
		compiled: f.NewHistogram(prometheus.HistogramOpts{
			Namespace: "edict", Name: "admission_compile_seconds", Buckets: fast,
			Help: "Time to compile one admission policy: when it is written, and in each process when a request or a list needs it.",
		}),
		version: f.NewGauge(prometheus.GaugeOpts{
			Namespace: "edict", Name: "admission_snapshot_version",
			Help: "Log sequence of the newest change of an admission policy that this process uses. If it is lower than on other workers, this process lags.",
		}),
	}
	for _, result := range admission.DecisionCounts {
		m.decisions.WithLabelValues(result)
	}
	for _, outcome := range admission.Outcomes {
		m.requests.WithLabelValues(outcome)
	}
	for _, outcome := range []admission.Outcome{
		admission.OutcomeNoOpinion, admission.OutcomeApplied, admission.OutcomeRejected, admission.OutcomeConflict, admission.OutcomeError, admission.OutcomeTimeout,
	} {
		m.policies.WithLabelValues(string(outcome))
	}
	for _, level := range admission.Levels() {
		m.seconds.WithLabelValues(level.String())
	}
	return m
}

// Admission is what a registry of admission policies reports to.
func (m *Metrics) Admission() admission.Metrics {
	a := &m.admission
	return admission.Metrics{
		Evaluated: func(outcome string) { a.requests.WithLabelValues(outcome).Inc() },
		Policy: func(l admission.Level, o admission.Outcome, took time.Duration) {
			a.policies.WithLabelValues(string(o)).Inc()
			a.seconds.WithLabelValues(l.String()).Observe(took.Seconds())
		},
		Compiled: func(took time.Duration) { a.compiled.Observe(took.Seconds()) },
		Version:  func(version uint64) { a.version.Set(float64(version)) },
	}
}

// DecisionLogged counts n decisions on their way to the decision log.
func (m *Metrics) DecisionLogged(result string, n int) {
	m.admission.decisions.WithLabelValues(result).Add(float64(n))
}

package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what an agent shows of its node. All roots of one agent share them.
type Metrics struct {
	state              *prometheus.GaugeVec
	table, elements    prometheus.Gauge
	confirmed, applied prometheus.Gauge
	looks              *prometheus.CounterVec
	sets               *prometheus.CounterVec
	installed          *prometheus.GaugeVec
	changeFailures     prometheus.Counter
}

// NewMetrics registers them; nil: they are nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		state: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edict_agent_state",
			Help: "1 for how the rules in force stand to what the plane serves: none, current, polling, stale or refused. Stale: the plane has not confirmed them for --max-age.",
		}, []string{"state"}),
		table:     f.NewGauge(prometheus.GaugeOpts{Name: "edict_agent_table_version", Help: "Log sequence at which the table in force was served. 0: none is in force."}),
		elements:  f.NewGauge(prometheus.GaugeOpts{Name: "edict_agent_table_elements", Help: "Elements of the kernel's maps that the table became."}),
		applied:   f.NewGauge(prometheus.GaugeOpts{Name: "edict_agent_applied_timestamp_seconds", Help: "When the table came into force. 0: never."}),
		confirmed: f.NewGauge(prometheus.GaugeOpts{Name: "edict_agent_confirmed_timestamp_seconds", Help: "When the plane last said that the table in force is the right one. 0: never."}),
		looks: f.NewCounterVec(prometheus.CounterOpts{
			Name: "edict_agent_looks_total", Help: "Looks at the plane's table and at the kernel, by outcome. failed: the plane gave no table, or it could not be put in force.",
		}, []string{"outcome"}),
		sets: f.NewCounterVec(prometheus.CounterOpts{
			Name: "edict_agent_sets_total", Help: "Sets of artifacts that the plane offered, by outcome: installed, or refused because the signers did not make them.",
		}, []string{"outcome"}),
		installed: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "edict_agent_set_version", Help: "Version of the accepted set of artifacts, by install root. 0: none was accepted.",
		}, []string{"dir"}),
		changeFailures: f.NewCounter(prometheus.CounterOpts{Name: "edict_agent_on_change_failures_total", Help: "Runs of --on-change that failed; each is tried again."}),
	}
	// A series that appears with its first count hides that count from rate().
	for _, outcome := range []string{lookWell, lookFailed} {
		m.looks.WithLabelValues(outcome)
	}
	for _, outcome := range []string{setInstalled, setRefused} {
		m.sets.WithLabelValues(outcome)
	}
	return m
}

// Outcomes of looks at the plane's table, and of sets of artifacts.
const (
	lookWell, lookFailed     = "ok", "failed"
	setInstalled, setRefused = "installed", "refused"
)

// refused counts a set that was not accepted.
func (m *Metrics) refused() { m.sets.WithLabelValues(setRefused).Inc() }

// accepted shows the version that an install root has; fresh: it was just installed.
func (m *Metrics) accepted(dir string, version uint64, fresh bool) {
	if fresh {
		m.sets.WithLabelValues(setInstalled).Inc()
	}
	m.installed.WithLabelValues(dir).Set(float64(version))
}

// seconds is a moment as metrics have it; 0: never.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

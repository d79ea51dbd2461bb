//go:build linux

package agent

var states = []State{StateNone, StateCurrent, StatePolling, StateStale, StateRefused}

// looked shows a status.
func (m *Metrics) looked(s Status) {
	for _, state := range states {
		m.state.WithLabelValues(string(state)).Set(0)
	}
	m.state.WithLabelValues(string(s.State)).Set(1)
	m.table.Set(float64(s.Version))
	m.elements.Set(float64(s.Elements))
	m.applied.Set(seconds(s.AppliedAt))
	m.confirmed.Set(seconds(s.ConfirmedAt))
}

// asked counts a look at the plane.
func (m *Metrics) asked(err error) {
	outcome := lookWell
	if err != nil {
		outcome = lookFailed
	}
	m.looks.WithLabelValues(outcome).Inc()
}

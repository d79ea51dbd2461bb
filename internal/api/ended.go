package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Why a worker ends by itself: what no waiting heals. docs/recovery.md has this list.
const (
	EndedRestored  = "restored"   // the log was declared put back: event ids begin anew
	EndedOvertaken = "overtaken"  // the log was compacted beyond what was folded
	EndedDamaged   = "damaged"    // the log is damaged, and there is no API to say so
	EndedReadModel = "read_model" // the read model is damaged
	EndedOtherLog  = "other_log"  // the read model is of another log
	EndedKey       = "key"        // the plane signs with a key that this worker does not have
	EndedOther     = "other"
)

var endReasons = []string{EndedRestored, EndedOvertaken, EndedDamaged, EndedReadModel, EndedOtherLog, EndedKey, EndedOther}

// newEnded shows no end of any reason.
func newEnded(reg prometheus.Registerer) *prometheus.GaugeVec {
	v := promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "edict", Name: "ended_timestamp_seconds",
		Help: "When the run of this worker before the present one ended by itself, by reason, in seconds since 1970; 0: it ended in order, or was killed. A worker that shows it again and again does not heal by being started.",
	}, []string{"reason"})
	for _, reason := range endReasons {
		v.WithLabelValues(reason)
	}
	return v
}

// Ended notes why the run before this one ended by itself, and when.
func (m *Metrics) Ended(reason string, at time.Time) {
	m.ended.WithLabelValues(reason).Set(float64(at.Unix()))
}

package access

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
)

// Quota is how much of the log a project may take in a day. JetStream has no such
// limit: it acknowledges what a client may publish, and the log keeps it for
// good. The fold counts it, so every worker says the same.
type Quota struct {
	Model Model
	Bytes uint64 // 0: any number
	Log   *slog.Logger
}

// Exceeded reports whether a project took its share of the log in the last day.
func (q Quota) Exceeded(project uuid.UUID) (exceeded bool) {
	if q.Bytes == 0 {
		return false
	}
	q.Model.Read(func(v *projector.View) { exceeded = v.Usage(project).Bytes(time.Now()) >= q.Bytes })
	return exceeded
}

// quotaEvery is how soon it is said that a project has had its share.
const quotaEvery = 2 * time.Second

// Run says once of each project that it has had its share, until ctx ends.
func (q Quota) Run(ctx context.Context) error {
	if q.Bytes == 0 {
		return nil
	}
	tick := time.NewTicker(quotaEvery)
	defer tick.Stop()
	var warned map[uuid.UUID]uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var over map[uuid.UUID]uint64
		q.Model.Read(func(v *projector.View) { over = v.OverShare(q.Bytes, time.Now()) })
		for project, bytes := range over {
			if _, before := warned[project]; !before {
				q.Log.Warn("a project has had its share of the log for a day: its writes are refused, and an embedded server shuts its producers out, until older hours are over",
					"project", project, "bytes", bytes)
			}
		}
		warned = over
	}
}

package integrity

import (
	"context"
	"errors"

	"github.com/edictdev/edict/internal/streams"
)

// checkReplicas asks whether all servers that keep the log are there, and says so when that
// changes: while one is away everything works, until the next one goes.
func (m *Monitor) checkReplicas(ctx context.Context) {
	err := m.opt.Log.Replicas(ctx)
	var away *streams.ReplicaError
	if err != nil && !errors.As(err, &away) {
		return // asked again
	}
	switch before := m.replicas.Swap(away); {
	case away != nil && (before == nil || before.Error() != away.Error()):
		m.log.Warn("not all servers that keep the log are there", "error", away)
	case away == nil && before != nil:
		m.log.Info("all servers that keep the log are there again", "stream", streams.LogStream)
	}
}

// Replicas is a *streams.ReplicaError while servers that keep the log are away, as it was
// asked last; nil: all are there.
func (m *Monitor) Replicas() error {
	if away := m.replicas.Load(); away != nil {
		return away
	}
	return nil
}

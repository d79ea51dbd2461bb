package integrity

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/edictdev/edict/internal/streams"
)

// advice is what somebody should see to, as it was asked last: a *T, which is an error.
type advice[T any, E interface {
	*T
	error
}] struct{ last atomic.Pointer[T] }

// learn takes an answer and says what changed. One that is another error is none: it is asked
// again.
func (a *advice[T, E]) learn(answer error, found func(E), over func()) {
	now, is := errors.AsType[E](answer)
	if answer != nil && !is {
		return
	}
	switch before := E(a.last.Swap((*T)(now))); {
	case now != nil && (before == nil || before.Error() != now.Error()):
		found(now)
	case now == nil && before != nil:
		over()
	}
}

// err is the advice; nil: there is none.
func (a *advice[T, E]) err() error {
	if last := a.last.Load(); last != nil {
		return E(last)
	}
	return nil
}

// checkSettings asks whether the log's stream still has the settings that a start wants, and
// says so when that changes. Some have the server drop old events, sooner or later.
func (m *Monitor) checkSettings(ctx context.Context) {
	m.settings.learn(m.opt.Log.Settings(ctx), func(contradicts *streams.ConfigError) {
		m.log.Error("the log has settings that contradict what edict promises: set them back before events are lost; a start is refused", "error", contradicts)
	}, func() {
		m.log.Info("the log has the settings again that edict promises to keep", "stream", streams.LogStream)
	})
}

// Settings is a *streams.ConfigError while the log's stream has settings that contradict
// what Edict promises, as it was asked last; nil: it has none.
func (m *Monitor) Settings() error { return m.settings.err() }

// checkReplicas asks whether all servers that keep the log are there, and says so when that
// changes: while one is away everything works, until the next one goes.
func (m *Monitor) checkReplicas(ctx context.Context) {
	m.replicas.learn(m.opt.Log.Replicas(ctx), func(away *streams.ReplicaError) {
		m.log.Warn("not all servers that keep the log are there", "error", away)
	}, func() {
		m.log.Info("all servers that keep the log are there again", "stream", streams.LogStream)
	})
}

// Replicas is a *streams.ReplicaError while servers that keep the log are away, as it was
// asked last; nil: all are there.
func (m *Monitor) Replicas() error { return m.replicas.err() }

// checkOrigin asks whether what a compacted log begins with is there still, and says so when that
// changes: workers that run do not need it, and the next one that starts would be refused.
func (m *Monitor) checkOrigin(ctx context.Context) {
	if m.opt.Origin == nil {
		return
	}
	m.origin.learn(m.opt.Origin(ctx), func(lost *streams.LostOriginError) {
		m.log.Error("what the log begins with is lost: no worker can begin without it", "error", lost)
	}, func() {
		m.log.Info("what the log begins with is there again", "stream", streams.LogStream)
	})
}

// Origin is a *streams.LostOriginError while what a compacted log begins with is gone, as it was
// asked last; nil: it is there.
func (m *Monitor) Origin() error { return m.origin.err() }

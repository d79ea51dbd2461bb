package integrity

import (
	"context"
	"errors"

	"github.com/edictdev/edict/internal/streams"
)

// checkSettings asks whether the log's stream still has the settings that a start wants, and
// says so when that changes. Some have the server drop old events, sooner or later.
func (m *Monitor) checkSettings(ctx context.Context) {
	err := m.opt.Log.Settings(ctx)
	var contradicts *streams.ConfigError
	if err != nil && !errors.As(err, &contradicts) {
		return // asked again
	}
	switch before := m.settings.Swap(contradicts); {
	case contradicts != nil && (before == nil || before.Error() != contradicts.Error()):
		m.log.Error("the log has settings that contradict what edict promises: set them back before events are lost; a start is refused", "error", contradicts)
	case contradicts == nil && before != nil:
		m.log.Info("the log has the settings again that edict promises to keep", "stream", streams.LogStream)
	}
}

// Settings is a *streams.ConfigError while the log's stream has settings that contradict
// what Edict promises, as it was asked last; nil: it has none.
func (m *Monitor) Settings() error {
	if contradicts := m.settings.Load(); contradicts != nil {
		return contradicts
	}
	return nil
}

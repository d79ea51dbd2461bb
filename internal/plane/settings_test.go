package plane

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
)

// Who bounds the age of events while the plane runs hears of it before the first one is gone.
func TestSettingsThatWouldLoseEventsAreSaidWhileThePlaneRuns(t *testing.T) {
	var out output.Buffer
	at, _ := start(t, Options{
		Data: t.TempDir(), NATSListen: "127.0.0.1:0", Relaxed: true, witnessEvery: 5 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&out, nil)),
	})
	nc, err := nats.Connect(at.NATS)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	setAge := func(age time.Duration) {
		s, err := js.Stream(t.Context(), streams.LogStream)
		require.NoError(t, err)
		cfg := s.CachedInfo().Config
		cfg.MaxAge = age
		_, err = js.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}
	check := func() (found resource.Check) {
		ready, err := newClient(t, at).Ready(t.Context())
		require.NoError(t, err, "the plane serves all the same")
		for _, c := range ready.Checks {
			if c.Name == "settings" {
				found = c
			}
		}
		return found
	}
	require.Equal(t, "ok", check().Status)
	setAge(time.Hour)
	require.Eventually(t, func() bool { return check().Status == "info" }, 20*time.Second, time.Millisecond)
	require.Contains(t, check().Detail, "max_age is 1h0m0s: must be 0")
	setAge(0)
	require.Eventually(t, func() bool { return check().Status == "ok" }, 20*time.Second, time.Millisecond)
	require.Equal(t, 1, strings.Count(out.String(), "the log has settings that contradict what edict promises"), "once")
	require.Contains(t, out.String(), "the log has the settings again that edict promises to keep")
}

package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// A worker that starts before its NATS servers agree waits for them, and says so.
func TestAStartWaitsForALeader(t *testing.T) {
	unanswered := fmt.Errorf("ask for the JetStream account: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		nats  string
		err   error
		waits bool
	}{
		"servers that do not answer":   {"nats://a", unanswered, true},
		"a connection that was lost":   {"nats://a", fmt.Errorf("read: %w: connection lost", streams.ErrNoAnswer), true},
		"nobody serves the account":    {"nats://a", fmt.Errorf("ask: %w", nats.ErrNoResponders), true},
		"a server that is not there":   {"nats://a", &streams.ConnectError{Server: "a", Err: nats.ErrTimeout}, false},
		"a stream that will not do":    {"nats://a", &streams.ConfigError{Stream: "EDICT_LOG"}, false},
		"a server in this process":     {"", unanswered, false},
		"credentials that are no good": {"nats://a", errors.New("not a worker's"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				opt := Options{NATS: c.nats, Log: slog.New(slog.NewTextHandler(&said, nil))}
				tries := 0
				began := time.Now()
				err := opt.awaitLeader(t.Context(), func() error {
					if tries++; tries <= 3 {
						return c.err
					}
					return nil
				})
				if !c.waits {
					require.Equal(t, c.err, err)
					require.Equal(t, 1, tries)
					return
				}
				require.NoError(t, err)
				require.Equal(t, 3*time.Second, time.Since(began))
				require.Equal(t, 1, strings.Count(said.String(), "do most of its servers run?"), "once a minute")
			})
		})
	}
}

func TestAStartThatIsCalledOffWaitsForNobody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	opt := Options{NATS: "nats://a", Log: slog.New(slog.DiscardHandler)}
	err := opt.awaitLeader(ctx, func() error { cancel(); return context.DeadlineExceeded })
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

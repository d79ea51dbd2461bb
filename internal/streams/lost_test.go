package streams

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestWhoWaitsForAServerInVainIsTold, if they said how long: else they wait for ever, and a
// command that is run by a timer holds its lock as long.
func TestWhoWaitsForAServerInVainIsTold(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	c := connect(t, ConnectOptions{URL: s.ClientURL(), GiveUp: 50 * time.Millisecond})
	l := openLog(t, c)
	_, _, err := l.Publish(within(t), Append{Event: node("n1", 1)})
	require.NoError(t, err)
	var failed error
	for _, err := range l.Follow(within(t), 0) {
		if failed = err; err == nil {
			s.Close()
		}
	}
	require.ErrorIs(t, failed, nats.ErrConnectionClosed)
	require.ErrorAs(t, failed, new(*ConnectError))
	require.ErrorContains(t, failed, "the connection was lost, and did not come back within 50ms")
	_, err = l.State(within(t))
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}

// TestAServerThatComesBackInTimeIsNotGivenUp, however often it went.
func TestAServerThatComesBackInTimeIsNotGivenUp(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	l := openLog(t, connect(t, ConnectOptions{URL: s.ClientURL(), GiveUp: time.Minute}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := feed(t, l.Follow(ctx, 0))
	for i := range 3 {
		seq, _, err := l.Publish(within(t), Append{Event: node("a", i)})
		require.NoError(t, err)
		require.Equal(t, seq, next(t, in).Seq)
		require.NoError(t, s.Restart())
		require.Eventually(t, l.c.Connected, within20s, tick)
	}
}

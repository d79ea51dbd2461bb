package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/node"
)

// A token that was renewed is shown at the next connect.
func TestATokenIsAskedForAtEachConnect(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, Authorization: "renewed"})
	require.NoError(t, err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	require.True(t, s.ReadyForConnections(20*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	var refused int
	var said error
	tokens := []string{"old", "renewed"}
	f := node.NewFollower("", "web-1", node.Options{
		NATS: s.ClientURL(), Trust: artifact.NewTrustSet(), MinWait: time.Millisecond,
		TokenFrom: func() (now string) {
			if now = tokens[0]; len(tokens) > 1 {
				tokens = tokens[1:]
			}
			return now
		},
		Trouble: func(err error, _ time.Duration) {
			if errors.As(err, new(*node.NATSAccessError)) && refused < 5 {
				refused++
				return
			}
			said = err
			cancel()
		},
	})
	require.NoError(t, f.Run(ctx, func(node.Event) error { return nil }))
	require.ErrorContains(t, said, "no plane answers on NATS")
	require.Equal(t, 1, refused)
}

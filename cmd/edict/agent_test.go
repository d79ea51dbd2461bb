package main

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
)

// part is a part of the agent that is there for as long as it is asked to be.
type part struct{}

func (part) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// A unit of Type=notify is ready once what was in force is so again, and not
// before.
func TestSystemdHearsOfAnAgentThatIsReady(t *testing.T) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	ctx, cancel := context.WithCancel(t.Context())
	var inForce atomic.Bool
	opened := func(context.Context) (running, error) {
		inForce.Store(true)
		return part{}, nil
	}
	done := make(chan error, 1)
	go func() {
		done <- agentCommands{&app{}}.runAgent(ctx, []agent.Options{{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}, opened, slog.New(slog.DiscardHandler))
	}()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(30*time.Second)))
	said := make([]byte, 64)
	n, err := socket.Read(said)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(said[:n]))
	require.True(t, inForce.Load())
	cancel()
	require.NoError(t, <-done)
}

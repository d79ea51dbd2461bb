package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
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
		done <- agentCommands{&app{}}.runAgent(ctx, []agent.Options{{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}, opened, &agentPage{}, slog.New(slog.DiscardHandler))
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

// What an agent measures is on a page of this machine, for as long as the agent runs.
func TestAnAgentServesItsMetrics(t *testing.T) {
	page, measured, err := agentFlags{metrics: "127.0.0.1:0"}.metricsPage(agentCommands{&app{}}.agentCommand(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NotNil(t, measured)
	address := page.listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- page.Run(ctx) }()
	for path, says := range map[string]string{"/metrics": "\nedict_agent_on_change_failures_total 0\n", "/livez": ""} {
		res, err := http.Get("http://" + address + path) //nolint:noctx // on loopback
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Contains(t, string(text), says)
	}
	cancel()
	require.NoError(t, <-done)
	_, err = net.Dial("tcp", address)
	require.Error(t, err)
}

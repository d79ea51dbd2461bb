package cli_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func TestAProgramEndsAtASignal(t *testing.T) {
	signalled := func() { require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM)) }
	require.Equal(t, 3, cli.Main(1, func(context.Context) int { return 3 }))
	require.Equal(t, 4, cli.Main(1<<40, func(ctx context.Context) int {
		signalled()
		<-ctx.Done()
		return 4
	}), "what ends in time says its own code")
	release := make(chan struct{})
	defer close(release)
	require.Equal(t, 130, cli.Main(1, func(context.Context) int {
		signalled()
		<-release // such as a file that nobody writes to
		return 0
	}))
}

func TestWhatServesEndsInItsOwnTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	require.Equal(t, 5, cli.Within(ctx, func() time.Duration { close(release); return 0 }, func() int {
		cancel()
		<-release
		return 5
	}))
	ended := make(chan struct{})
	defer close(ended)
	require.Equal(t, 130, cli.Within(ctx, func() time.Duration { return 1 }, func() int { <-ended; return 0 }))
}

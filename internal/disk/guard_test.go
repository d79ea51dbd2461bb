package disk

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeServer notes what it is told.
type fakeServer struct {
	failed  error
	stuck   error // a restart's
	refused bool
	started int
}

func (f *fakeServer) Failed() error          { return f.failed }
func (f *fakeServer) Refuse(on bool) error   { f.refused = on; return nil }
func (f *fakeServer) Restart() error         { f.started++; return f.restarted() }
func (f *fakeServer) restarted() (err error) { f.failed, err = f.stuck, f.stuck; return err }

func TestTheLessHeadroomTheMoreWaits(t *testing.T) {
	server := &fakeServer{}
	var lines strings.Builder
	g := NewGuard(Options{Dir: "d", MinFree: 256 * mib, Server: server, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	for _, step := range []struct {
		free         uint64
		low, refused bool
		lines        int
	}{
		{1000, false, false, 0},
		{256, false, false, 0},
		{255, true, false, 1}, // authors
		{128, true, false, 1},
		{127, true, true, 1}, // producers
		{0, true, true, 1},
		{40, true, true, 1},
		{200, true, true, 1}, // nobody is told twice in a row
		{260, true, true, 1},
		{272, false, false, 2},
		{250, true, false, 3},
	} {
		g.free = func(string) (uint64, error) { return step.free * mib, nil }
		g.look()
		require.Equal(t, step.low, g.Writable() != nil, "%d MiB", step.free)
		require.Equal(t, step.refused, server.refused, "%d MiB", step.free)
		require.Equal(t, step.lines, strings.Count(lines.String(), "\n"), "%d MiB:\n%s", step.free, lines.String())
	}
	require.ErrorContains(t, g.Writable(), "--min-free 256MiB")
	g.free = func(string) (uint64, error) { return 0, errors.ErrUnsupported }
	g.look()
	require.NoError(t, g.Writable(), "what cannot be measured refuses nobody")
	require.Zero(t, server.started)
}

func TestAFailedLogIsRestartedOnceThereIsRoom(t *testing.T) {
	server := &fakeServer{failed: errors.New("no space left on device")}
	var lines strings.Builder
	g := NewGuard(Options{Dir: "d", Server: server, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	g.free = func(string) (uint64, error) { return 0, nil }
	g.look()
	g.look()
	require.Zero(t, server.started)
	require.ErrorContains(t, g.Writable(), "met a full disk", "also without --min-free")
	require.True(t, server.refused, "who writes hears it, too")
	require.Equal(t, 1, strings.Count(lines.String(), "\n"), lines.String())

	g.free = func(string) (uint64, error) { return 100 * mib, nil }
	server.stuck = errors.New("address in use")
	g.look()
	g.look()
	require.Equal(t, 1, server.started, "the next try waits")
	require.Error(t, g.Writable())
	g.again, server.stuck = time.Time{}, nil
	g.look()
	require.Equal(t, 2, server.started)
	require.NoError(t, g.Writable())
	require.False(t, server.refused)
	require.Equal(t, 1, strings.Count(lines.String(), "restarted the log's server"), lines.String())
}

// TestWhatIsThrownAwayWaitsForSpaceForAWhile, and holds up nobody.
func TestWhatIsThrownAwayWaitsForSpaceForAWhile(t *testing.T) {
	for name, end := range map[string]func(free *atomic.Uint64, g *Guard){
		"until there is room":  func(free *atomic.Uint64, _ *Guard) { free.Store(32 * mib) },
		"or the plane is shut": func(_ *atomic.Uint64, g *Guard) { g.Release() },
		"or it gives up":       func(_ *atomic.Uint64, g *Guard) { g.brief = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			g := NewGuard(Options{Dir: "d", MinFree: 256 * mib})
			g.free = func(string) (uint64, error) { return free.Load(), nil }
			end(&free, g)
			g.WaitBriefly()
			require.NoError(t, g.Writable())
			g.await(t.Context())
		})
	}
}

func TestTheFoldWaitsWhileTheReadModelDoes(t *testing.T) {
	for name, end := range map[string]func(free *atomic.Uint64, g *Guard){
		"until there is room":  func(free *atomic.Uint64, _ *Guard) { free.Store(32 * mib) },
		"or the plane is shut": func(_ *atomic.Uint64, g *Guard) { g.Release(); g.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			g := NewGuard(Options{Dir: "d", MinFree: 256 * mib})
			g.free = func(string) (uint64, error) { return free.Load(), nil }
			g.await(t.Context()) // nothing waits
			waited := make(chan struct{})
			go func() { g.WaitOut(); close(waited) }()
			require.Eventually(t, func() bool { return g.Writable() != nil }, 20*time.Second, time.Millisecond, "authors would get no verdict")
			short, cancel := context.WithCancel(t.Context())
			cancel()
			g.await(short) // ends with its context
			end(&free, g)
			g.await(t.Context())
			<-waited
			require.NoError(t, g.Writable())
		})
	}
}

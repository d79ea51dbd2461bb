package plane

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

func TestTheLessRoomTheMoreWaits(t *testing.T) {
	server := &fakeServer{}
	var lines strings.Builder
	r := newRoom("d", 256*mib, slog.New(slog.NewTextHandler(&lines, nil)))
	r.server = server
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
		r.free = func(string) (uint64, error) { return step.free * mib, nil }
		r.look()
		require.Equal(t, step.low, r.writable() != nil, "%d MiB", step.free)
		require.Equal(t, step.refused, server.refused, "%d MiB", step.free)
		require.Equal(t, step.lines, strings.Count(lines.String(), "\n"), "%d MiB:\n%s", step.free, lines.String())
	}
	require.ErrorContains(t, r.writable(), "--min-free 256MiB")
	r.free = func(string) (uint64, error) { return 0, errors.ErrUnsupported }
	r.look()
	require.NoError(t, r.writable(), "what cannot be measured refuses nobody")
	require.Zero(t, server.started)
}

func TestAFailedLogIsRestartedOnceThereIsRoom(t *testing.T) {
	server := &fakeServer{failed: errors.New("no space left on device")}
	var lines strings.Builder
	r := newRoom("d", 0, slog.New(slog.NewTextHandler(&lines, nil)))
	r.server = server
	r.free = func(string) (uint64, error) { return 0, nil }
	r.look()
	r.look()
	require.Zero(t, server.started)
	require.ErrorContains(t, r.writable(), "met a full disk", "also without --min-free")
	require.True(t, server.refused, "who writes hears it, too")
	require.Equal(t, 1, strings.Count(lines.String(), "\n"), lines.String())

	r.free = func(string) (uint64, error) { return 100 * mib, nil }
	server.stuck = errors.New("address in use")
	r.look()
	r.look()
	require.Equal(t, 1, server.started, "the next try waits")
	require.Error(t, r.writable())
	r.again, server.stuck = time.Time{}, nil
	r.look()
	require.Equal(t, 2, server.started)
	require.NoError(t, r.writable())
	require.False(t, server.refused)
	require.Equal(t, 1, strings.Count(lines.String(), "restarted the log's server"), lines.String())
}

func TestTheFoldWaitsWhileTheReadModelDoes(t *testing.T) {
	for name, end := range map[string]func(free *atomic.Uint64, r *room){
		"until there is room":  func(free *atomic.Uint64, _ *room) { free.Store(32 * mib) },
		"or the plane is shut": func(_ *atomic.Uint64, r *room) { r.release(); r.release() },
	} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			r := newRoom("d", 256*mib, slog.New(slog.DiscardHandler))
			r.free = func(string) (uint64, error) { return free.Load(), nil }
			r.await(t.Context()) // nothing waits
			waited := make(chan struct{})
			go func() { r.waitOut(); close(waited) }()
			require.Eventually(t, func() bool { return r.writable() != nil }, 20*time.Second, time.Millisecond, "authors would get no verdict")
			short, cancel := context.WithCancel(t.Context())
			cancel()
			r.await(short) // ends with its context
			end(&free, r)
			r.await(t.Context())
			<-waited
			require.NoError(t, r.writable())
		})
	}
}

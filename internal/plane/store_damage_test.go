package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/test/output"
)

// storeFiles are files of a read model.
func storeFiles(t *testing.T, dir, pattern string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "store", pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	return files
}

// spoil flips a byte in every kilobyte of a file, where it stands.
func spoil(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 100; i < len(b); i += 1 << 10 {
		b[i] ^= 0x20
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, errors.Join(err, f.Close()))
}

// asides are the read models that were moved aside.
func asides(t *testing.T, dir string) []string {
	all, err := filepath.Glob(filepath.Join(dir, "store.*"))
	require.NoError(t, err)
	return all
}

// TestADamagedReadModelIsMadeAnew: it is derived. What was there is kept once,
// and one line names it.
func TestADamagedReadModelIsMadeAnew(t *testing.T) {
	each := func(pattern string, harm func(path string) error) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, path := range storeFiles(t, dir, pattern) {
				require.NoError(t, harm(path))
			}
		}
	}
	cut := func(path string) error { return os.Truncate(path, 100) }
	garble := func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{0x5a}, 4096), 0o600) }
	for name, harm := range map[string]func(t *testing.T, dir string){
		"flipped bytes of tables": func(t *testing.T, dir string) {
			for _, path := range storeFiles(t, dir, "*.sst") {
				spoil(t, path)
			}
		},
		"missing tables":   each("*.sst", os.Remove),
		"cut tables":       each("*.sst", cut),
		"garbled tables":   each("*.sst", garble),
		"garbled manifest": each("MANIFEST-*", garble),
		"missing manifest": each("MANIFEST-*", os.Remove),
		"garbled log":      each("*.log", garble),
		"garbled options":  each("OPTIONS-*", garble),
		"garbled marker":   each("marker.format-version.*", garble),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it waits for a server to start and to end
			dir, times := data(t), 1
			if strings.HasPrefix(name, "garbled") {
				times = 2 // what was moved aside before makes room
			}
			for range times {
				harm(t, dir)
				var out output.Buffer
				func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					p, err := Open(ctx, Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true, Log: slog.New(slog.NewTextHandler(&out, nil))})
					require.NoError(t, err)
					defer p.Close()
					ended := make(chan error, 1)
					go func() { ended <- p.Run(ctx) }()
					require.NoError(t, p.store.Wait(ctx, folded))
					cancel()
					require.NoError(t, <-ended)
				}()
				require.NotContains(t, out.String(), ".go:", "no stack")
				if aside := asides(t, dir); len(aside) > 0 {
					require.Equal(t, []string{filepath.Join(dir, "store.damaged")}, aside)
					require.Equal(t, 1, strings.Count(out.String(), "the read model is damaged"), out.String())
					require.Contains(t, out.String(), aside[0])
				} else {
					require.NotContains(t, name, "table")
				}
			}
		})
	}
}

// TestAReadModelThatIsDamagedWhileItIsReadEndsTheProcess: in one line, and the
// next start makes it anew, though nothing that a start reads is damaged.
func TestAReadModelThatIsDamagedWhileItIsReadEndsTheProcess(t *testing.T) {
	dir := data(t)
	const events = 2000
	func() { // what no start reads: rejections
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p, err := Open(ctx, Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true})
		require.NoError(t, err)
		defer p.Close()
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		require.NoError(t, p.stream.Fill(ctx, folded+events, func(uint64) {}))
		require.NoError(t, p.store.Wait(ctx, folded+events))
		require.Eventually(t, func() bool {
			list, err := p.store.Unreported(1)
			return err == nil && len(list) == 0
		}, 2*time.Minute, time.Millisecond, "the next start would read them to report them")
		cancel()
		require.NoError(t, <-ended)
	}()

	var out output.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := Open(ctx, Options{Data: dir, HTTP: "127.0.0.1:0", NATSListen: "none", Relaxed: true, Log: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	require.Eventually(t, func() bool { return p.Ready(ctx) == nil }, time.Minute, time.Millisecond)
	for _, path := range storeFiles(t, dir, "*.sst") {
		spoil(t, path)
	}
	status, _ := p.get(t, fmt.Sprintf("/v1/rejected?after=%d&limit=200", folded+events/2))
	require.Equal(t, 500, status)
	var corrupt *projector.CorruptError
	require.ErrorAs(t, <-ended, &corrupt)
	require.NotContains(t, corrupt.Error(), "\n")
	p.Close()
	require.NotContains(t, out.String(), ".go:", "no stack")

	p = running(t, Options{Data: dir, NATSListen: "none"})
	require.NoError(t, p.store.Wait(t.Context(), folded+events))
	require.Equal(t, []string{filepath.Join(dir, "store.damaged")}, asides(t, dir))
}

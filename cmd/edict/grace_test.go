package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// TestAStartThatWaitsForAFileEndsWithASignal: what serves ends in order, however long that
// takes, but a file that nobody writes to would never be read, and SIGTERM did nothing.
func TestAStartThatWaitsForAFileEndsWithASignal(t *testing.T) {
	for name, args := range map[string][]string{
		"serve": {"serve", "--data", filepath.Join(t.TempDir(), "data"), "--http", "127.0.0.1:0", "--nats-listen", "none", "--access"},
		"agent": {"agent", "--node", "n1", "--dir", t.TempDir(), "--server", "https://127.0.0.1:1", "--ca"},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			require.NoError(t, syscall.Mkfifo(pipe, 0o600))
			a := &app{console: console{stdout: io.Discard, stderr: io.Discard}}
			root := a.rootCommand()
			root.SetArgs(append(args, pipe))
			ended := make(chan int, 1)
			go func() { ended <- a.exit(cli.Execute(t.Context(), root, 80)) }()
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once it is read
			require.NoError(t, err)
			within := a.grace()
			require.NoError(t, w.Close())
			require.NotZero(t, <-ended, "an empty file is none of the kind")
			require.Equal(t, grace, within)
		})
	}
}

// TestWhatMustBeTrustedIsAFileOfText, and not a device without end.
func TestWhatMustBeTrustedIsAFileOfText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zeros")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 1<<36)) // more than memory holds
	_, err := readKeys(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "not text")
	_, err = filePin(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "not text")
}

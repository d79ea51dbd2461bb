package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/test/leftout"
)

// fullDisk is an output that takes nothing.
func fullDisk(t *testing.T) *os.File {
	t.Helper()
	if runtime.GOOS != "linux" {
		leftout.Here(t, "it needs /dev/full and /proc")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, full.Close()) })
	return full
}

// Who runs validate for others, as CI does, must not take a full disk for a broken rule.
func TestWhatCannotBeWrittenIsNoBrokenRule(t *testing.T) {
	t.Parallel()
	full := fullDisk(t)
	dir, keys := repositoryAndKeys(t)
	compile := []string{"compile", "--repo", dir, "--version", "1", "--signing-key", filepath.Join(keys, "primary.key")}
	keygen := []string{"keygen", "--repo", dir, "--kind", "user", "--name", "carol", "--out-key", filepath.Join(keys, "carol.key")}
	for name, tc := range map[string]struct {
		stdout *os.File
		args   []string
	}{
		"a report":  {full, []string{"validate", "--repo", dir, "-o", "json"}},
		"ok":        {full, []string{"validate", "--repo", dir}},
		"a summary": {full, compile},
		"a tree":    {nil, append(compile[:len(compile):len(compile)], "--out", "/proc/not-there/tree")},
		"a request": {nil, append(keygen, "--out-csr", "/proc/carol.csr")},
	} {
		var said bytes.Buffer
		code := 0
		if tc.stdout != nil {
			code = run(t.Context(), tc.args, tc.stdout, &said)
		} else {
			code = run(t.Context(), tc.args, &bytes.Buffer{}, &said)
		}
		require.Equal(t, cli.Unavailable, code, "%s: %s", name, &said)
	}
}

// What the enrollment log says was issued lies where it was wanted, though nobody could be shown it.
func TestWhatIsRecordedIsKeptThoughItCannotBeShown(t *testing.T) {
	t.Parallel()
	full := fullDisk(t)
	dir, keys := repositoryAndKeys(t)
	var said bytes.Buffer
	run := func(stdout io.Writer, want int, args ...string) {
		require.Equal(t, want, run(t.Context(), append(args, "--repo", dir), stdout, &said), "%v: %s", args, &said)
	}
	csr, cert, bundle := filepath.Join(keys, "alice.csr"), filepath.Join(keys, "alice.crt"), filepath.Join(keys, "bundle")
	run(io.Discard, cli.Fine, "keygen", "--kind", "user", "--name", "alice", "--out-key", filepath.Join(keys, "alice.key"), "--out-csr", csr)
	ca := filepath.Join(keys, "ca.key")
	run(full, cli.Unavailable, "ca", "sign", "--csr", csr, "--kind", "user", "--name", "alice", "--ca-key", ca, "--out", cert)
	require.FileExists(t, cert)
	run(full, cli.Unavailable, "bundle", "alpha", "--ca-key", ca, "--keys", keys, "--out", bundle)
	require.DirExists(t, bundle)
}

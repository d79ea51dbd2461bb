package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/test/leftout"
)

// Who runs validate for others, as CI does, must not take a full disk for a broken rule.
func TestWhatCannotBeWrittenIsNoBrokenRule(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		leftout.Here(t, "it needs /dev/full and /proc")
	}
	dir, keys := repositoryAndKeys(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, full.Close()) })
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

package tour

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the story lists to be tried begins with edict: a shell has to find it.
func TestAShellIsToldWhereTheProgramIs(t *testing.T) {
	dir := t.TempDir()
	o := Options{Binary: filepath.Join(dir, "edict")}
	require.NoError(t, os.WriteFile(o.Binary, []byte("#!/bin/sh\n"), 0o700))
	t.Setenv("PATH", dir)
	require.Empty(t, o.findable())
	t.Setenv("PATH", t.TempDir())
	require.Equal(t, "  export PATH=\""+dir+"\":$PATH\n", o.findable())
}

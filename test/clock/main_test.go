package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOverlayIsOfNowAlone(t *testing.T) {
	lib, dir := t.TempDir(), filepath.Join(t.TempDir(), "made")
	before, after := "package time\n\nfunc Since() {\n\tsec, nsec, mono := runtimeNow()\n}\n\n", "\tmono -= startNano\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(lib, "time.go"), []byte(before+begin+after), 0o600))
	require.NoError(t, write(dir, lib))
	text, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
	require.NoError(t, err)
	var list struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &list))
	require.Len(t, list.Replace, 2)
	made, err := os.ReadFile(list.Replace[filepath.Join(lib, "time.go")])
	require.NoError(t, err)
	require.Equal(t, before+begin+"\tsec += step()\n"+after, string(made))

	require.NoError(t, os.WriteFile(filepath.Join(lib, "time.go"), []byte(before), 0o600))
	require.ErrorContains(t, write(dir, lib), "adapt test/clock")
}

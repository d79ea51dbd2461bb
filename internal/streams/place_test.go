package streams

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/leftout"
)

// TestALogThatWasPutBackIsNotInItsPlace copies store directories as operators do.
func TestALogThatWasPutBackIsNotInItsPlace(t *testing.T) {
	if runtime.GOOS != "linux" {
		leftout.Here(t, "files have no identity here")
	}
	copied := func(from, to string) {
		out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for _, c := range []struct {
		name    string
		happens func(dir, backup string)
		inPlace bool
	}{
		{"nothing happened", func(string, string) {}, true},
		{"moved, as a whole", func(dir, _ string) {
			require.NoError(t, os.Rename(dir, dir+".elsewhere"))
			require.NoError(t, os.Rename(dir+".elsewhere", dir))
		}, true},
		{"removed, and the backup put there", func(dir, backup string) {
			require.NoError(t, os.RemoveAll(dir))
			copied(backup, dir)
		}, false},
		{"the backup moved there", func(dir, backup string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Rename(backup, dir))
		}, false},
		{"the backup written over what is there", func(dir, backup string) { copied(backup+"/.", dir) }, false},
		{"the streams alone put back", func(dir, backup string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "jetstream")))
			copied(filepath.Join(backup, "jetstream"), dir)
		}, false},
		{"not marked", func(dir, _ string) { require.NoError(t, os.Remove(filepath.Join(dir, placeName))) }, false},
		{"the mark is damaged", func(dir, _ string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, placeName), nil, 0o600))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "nats"), filepath.Join(t.TempDir(), "backup")
			require.NoError(t, os.MkdirAll(messagesDir(dir), 0o700))
			require.NoError(t, MarkPlace(dir))
			copied(dir, backup)
			require.NoError(t, MarkPlace(dir)) // the start after the backup
			c.happens(dir, backup)
			require.Equal(t, c.inPlace, InPlace(dir))
			require.NoError(t, MarkPlace(dir))
			require.True(t, InPlace(dir))
			left, err := filepath.Glob(filepath.Join(dir, ".place-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

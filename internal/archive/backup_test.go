package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// backedUp is a backup of a world.
func backedUp(t *testing.T) (dir string, m Manifest) {
	p := world(t, 40, 25)
	dir = t.TempDir()
	e := p.export(filepath.Join(dir, BackupLog))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
	m, err := WriteBackup(dir, Manifest{Log: e, Digest: p.folded().Digest}, map[string][]byte{BackupKeys: []byte("{}")})
	require.NoError(t, err)
	return dir, m
}

func TestABackupIsWhatItsManifestSays(t *testing.T) {
	dir, m := backedUp(t)
	require.Len(t, m.Files, 4, "three segments and the public keys")
	b, err := OpenBackup(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, m, b.Manifest)
	require.Equal(t, filepath.Join(dir, BackupKeys), b.Path(BackupKeys))
	require.Empty(t, b.Path(BackupKey))

	// A later backup that was cut off has segments that no manifest names.
	require.NoError(t, os.WriteFile(filepath.Join(dir, BackupLog, segmentName(26)), []byte("of a later one"), 0o600))
	_, err = OpenBackup(t.Context(), dir)
	require.NoError(t, err)
}

func TestALyingManifestIsRefused(t *testing.T) {
	replace := func(from, to string) func(t *testing.T, dir, text string) string {
		return func(t *testing.T, _, text string) string {
			require.Contains(t, text, from)
			return strings.Replace(text, from, to, 1)
		}
	}
	whole, _ := backedUp(t)
	for name, c := range map[string]struct {
		change func(t *testing.T, dir, text string) string
		want   string
	}{
		"a file elsewhere": {replace(`"keys.json"`, `"../keys.json"`), "which is no file of a backup"},
		"an absolute path": {replace(`"keys.json"`, `"/etc/passwd"`), "which is no file of a backup"},
		"any file":         {replace(`"keys.json"`, `"notes.txt"`), "which is no file of a backup"},
		"a missing file":   {replace(segmentName(21), segmentName(22)), "cannot be read"},
		"another size":     {replace(`"bytes": 2`, `"bytes": 3`), "the manifest says"},
		"a key of gigabytes": {func(t *testing.T, dir, text string) string {
			require.NoError(t, os.Truncate(filepath.Join(dir, BackupKeys), maxPart+1)) // it takes no room
			f, err := fileOf(filepath.Join(dir, BackupKeys), -1)
			require.NoError(t, err)
			was := partOf(BackupKeys, []byte("{}"))
			text = replace(was.SHA256, f.SHA256)(t, dir, text)
			return replace(`"bytes": 2,`, fmt.Sprintf(`"bytes": %d,`, f.Bytes))(t, dir, text)
		}, "keys.json: it has 16777217 bytes, and what is no part of the log has at most 16777216"},
		"another end":        {replace(`"last": 25`, `"last": 24`), "it says events 1 to 24"},
		"another log":        {replace(`"log": "1`, `"log": "2`), "the archive has 1 to 25 of log 1"},
		"no digest":          {replace(`"digest": "`, `"digest": "x`), "want 64 hex digits"},
		"a newer form":       {replace(`"version": 1`, `"version": 2`), "this edict reads 1"},
		"no manifest at all": {func(*testing.T, string, string) string { return "{}" }, "no manifest of a backup"},
		"a changed file": {func(t *testing.T, dir, text string) string {
			require.NoError(t, os.WriteFile(filepath.Join(dir, BackupKeys), []byte("[]"), 0o600))
			return text
		}, "keys.json: it has 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "backup")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			path := filepath.Join(dir, manifestName)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte(c.change(t, dir, string(text))), 0o600))
			_, err = OpenBackup(t.Context(), dir)
			require.ErrorContains(t, err, c.want)
		})
	}
}

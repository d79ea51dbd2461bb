package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// making is a directory in the making that has these parts.
func making(t *testing.T, d Dir, parts ...string) *Fresh {
	f, err := MakeFresh(d)
	require.NoError(t, err)
	for _, name := range parts {
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Dir().join(name)), 0o700))
		require.NoError(t, os.WriteFile(f.Dir().join(name), []byte("made"), 0o600))
	}
	return f
}

// TestADirectoryInTheMakingTakesNothingOfOthers: an operator may put the plane's only
// key there after a restore that was cut off, before it is run again.
func TestADirectoryInTheMakingTakesNothingOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ parts []string }{
		"as it was made":  {[]string{"nats/log"}},
		"with the key":    {[]string{"nats/log", "signing.key"}},
		"before anything": {nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := Dir(t.TempDir())
			making(t, d, c.parts...).Close()
			require.NoError(t, os.WriteFile(d.SigningKey(), []byte("the only one"), 0o600))
			_, err := MakeFresh(d)
			require.ErrorAs(t, err, new(*UnusableError))
			require.ErrorContains(t, err, "it has signing.key")
			text, err := os.ReadFile(d.SigningKey())
			require.NoError(t, err)
			require.Equal(t, "the only one", string(text))
		})
	}
	d := Dir(t.TempDir())
	f := making(t, d, "nats/log", "signing.key")
	defer f.Close()
	require.NoError(t, os.WriteFile(d.SigningKey(), []byte("the only one"), 0o600))
	require.ErrorContains(t, f.Finish(), "it has signing.key", "put there meanwhile")
}

// TestAFinishThatIsCutOffIsBegunAnew between any two of its moves, and after the last.
func TestAFinishThatIsCutOffIsBegunAnew(t *testing.T) {
	all := []string{"signing.key", "keys", "store", "nats"}
	for n := range len(all) + 1 {
		d := Dir(t.TempDir())
		f := making(t, d, "signing.key", "keys/a.key", "store/f", "nats/log")
		names, err := f.noteMoves()
		require.NoError(t, err)
		require.Equal(t, all, names)
		for _, name := range names[:n] {
			require.NoError(t, os.Rename(f.Dir().join(name), d.join(name)))
		}
		f.Close()
		require.Equal(t, n < len(all), d.unfinished(), n)
		f, err = MakeFresh(d)
		if n == len(all) {
			require.ErrorContains(t, err, "is not empty", "it was finished")
			continue
		}
		require.NoError(t, err)
		left, err := filepath.Glob(filepath.Join(string(d), "*"))
		require.NoError(t, err)
		require.Equal(t, []string{string(d.restoring())}, left)
		f.Close()
	}
}

func TestTwoMakeNoDirectoryAtOnce(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "new") + "/")
	require.NoError(t, os.MkdirAll(d.join("lost+found"), 0o700))
	f := making(t, d, "nats/log")
	_, err := MakeFresh(d)
	require.ErrorAs(t, err, new(*InUseError))
	require.FileExists(t, filepath.Join(f.Dir().NATS(), "log"))
	require.NoError(t, f.Finish())
	f.Close()
	require.False(t, d.unfinished())
	require.NoDirExists(t, string(d.restoring()))
	require.FileExists(t, filepath.Join(d.NATS(), "log"))
}

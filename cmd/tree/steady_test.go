package tree

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A compile that ends while a tree is read takes no file away, and what was read is of one tree.
func TestATreeThatIsReplacedIsReadAnew(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "compiled")
	for _, name := range []string{"compiled", "next"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		for _, file := range []string{"a", "b"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, file), []byte(name), 0o600))
		}
	}
	var seen []string
	require.NoError(t, Steady(out, func(fsys fs.FS) error {
		a, err := fs.ReadFile(fsys, "a")
		require.NoError(t, err)
		if len(seen) == 0 {
			require.NoError(t, os.Rename(out, filepath.Join(dir, "last")))
			require.NoError(t, os.Rename(filepath.Join(dir, "next"), out))
		}
		b, err := fs.ReadFile(fsys, "b")
		require.NoError(t, err)
		seen = append(seen, string(a)+" "+string(b))
		return nil
	}))
	require.Equal(t, []string{"compiled compiled", "next next"}, seen)
}

// What is wrong with a tree that stays is said once, and one that never stays is given up.
func TestATreeThatCannotBeReadSteadily(t *testing.T) {
	dir := t.TempDir()
	calls := 0
	require.ErrorIs(t, Steady(dir, func(fs.FS) error { calls++; return fs.ErrInvalid }), fs.ErrInvalid)
	require.Equal(t, 1, calls)
	require.ErrorIs(t, Steady(filepath.Join(dir, "nothing"), nil), fs.ErrNotExist)
	out := filepath.Join(dir, "out")
	require.NoError(t, os.Mkdir(out, 0o700))
	require.ErrorContains(t, Steady(out, func(fs.FS) error {
		require.NoError(t, os.Rename(out, filepath.Join(dir, "old"+string(rune('a'+calls)))))
		calls++
		return os.Mkdir(out, 0o700)
	}), "was replaced 10 times while it was read")
}

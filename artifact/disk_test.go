package artifact_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
)

// Who names /dev/stdout or /dev/null as root must not take it from the system.
func TestWhatIsNoFileIsNotReplacedByOne(t *testing.T) {
	dir, err := os.MkdirTemp("", "e") // the name of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	special := filepath.Join(dir, "s")
	l, err := net.Listen("unix", special)
	require.NoError(t, err)
	defer l.Close()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(special, link))
	for _, path := range []string{special, link, dir} {
		require.ErrorContains(t, artifact.WriteFile(path, []byte("x"), 0o600), "not a regular file")
	}
	info, err := os.Stat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSocket)

	path := filepath.Join(dir, "new")
	for _, text := range []string{"one", "two"} {
		require.NoError(t, artifact.WriteFile(path, []byte(text), 0o600))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3)
}

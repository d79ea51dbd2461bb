package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func TestAFileThatIsNoTokenIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "token")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	held, err := cli.OpenTokenFile(file("edt_x\n"))
	require.NoError(t, err)
	require.Equal(t, "edt_x", held.Now())
	for _, text := range []string{"", "\n", "a b", "a\nb\n"} {
		_, err = cli.OpenTokenFile(file(text))
		require.ErrorContains(t, err, "want one token and nothing else", "%q", text)
	}
	_, err = cli.OpenTokenFile(file(strings.Repeat("a", 2<<20)))
	require.ErrorContains(t, err, "longer than 1024 KiB, which no token is")
	require.Equal(t, "edt_x", held.Now(), "it keeps what it had")
	_, err = cli.OpenTokenFile("/dev/zero")
	require.ErrorContains(t, err, "longer than", "a device has no end")
	_, err = cli.OpenTokenFile(dir)
	require.ErrorContains(t, err, "is a directory")
}

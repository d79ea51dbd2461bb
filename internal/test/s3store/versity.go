package s3store

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/leftout"
)

// versity is the binary of another author's store, which make test-s3 builds.
const versity = "versitygw"

// Versity starts it on a directory until the test ends, and has this process ask it. root
// is that of the module. Where the machine has none the test is left out.
func Versity(t *testing.T, root string) {
	t.Helper()
	bin, err := exec.LookPath(filepath.Join(root, "bin", versity))
	if err != nil {
		bin, err = exec.LookPath(versity)
	}
	if err != nil {
		leftout.Here(t, "there is no %s: make test-s3 builds it", versity)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, Name), 0o700))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "--port", address, "posix", "--sidecar", t.TempDir(), dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=edict", "ROOT_SECRET_KEY="+Secret)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	const patience, pause = 20 * time.Second, 20 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			use(t, "http://"+address)
			return
		}
		require.True(t, time.Now().Before(deadline), "%v: %s", err, &out)
	}
}

package binary

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Plane is one `edict serve`.
type Plane struct {
	URL  string // of its API
	NATS string // of its embedded server; empty: there is none
	Stop func() // ends it as an operator does, which must succeed; the end of the test calls it too
}

// Serve runs a plane on temporary data and free ports of this machine until the test ends.
// Whoever wants it otherwise says so in args, the flags of edict serve.
func Serve(t *testing.T, args ...string) *Plane {
	t.Helper()
	bin, err := Edict()
	require.NoError(t, err)
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.Command(bin, slices.Concat([]string{
		"serve", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--ready-file", ready,
	}, args)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &log, &log, goesWithTheTest()
	require.NoError(t, cmd.Start())
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	p := &Plane{Stop: sync.OnceFunc(func() { // in which a test must not end: it would be a panic
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
		select {
		case err := <-gone:
			assert.NoError(t, err, "edict serve: %s", &log)
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Signal(syscall.SIGQUIT) // it prints what it does
			assert.Fail(t, "edict serve does not stop", "%v: %s", <-gone, &log)
		}
	})}
	t.Cleanup(p.Stop)
	p.await(t, ready, gone)
	return p
}

// await waits for the ready file.
func (p *Plane) await(t *testing.T, file string, gone chan error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && len(gone) == 0; time.Sleep(5 * time.Millisecond) {
		if at, ok := Ready(file); ok {
			p.URL, p.NATS = "http://"+at.HTTP, at.NATS
			return
		}
	}
	require.Fail(t, "edict serve does not get ready")
}

// Addresses are where a plane answers, as its ready file says.
type Addresses struct {
	HTTP string // host:port
	NATS string // URL of its embedded server; empty: there is none
}

// Ready reads a plane's ready file; false: it is not there yet.
func Ready(file string) (at Addresses, ok bool) {
	text, err := os.ReadFile(file)
	return at, err == nil && json.Unmarshal(text, &at) == nil
}

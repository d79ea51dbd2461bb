package streams

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockedBuffer takes the lines of a server, whose goroutines log at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// misbehave connects, sends what is no protocol, and waits until the server has said so in its
// log and closed the connection.
func misbehave(t *testing.T, addr, says string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, says)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, c) // a reset is an end, too
}

// TestWhatAClientSaysIsNoFailureOfTheStore: the server's lines about a client have the name
// that it gave itself, and what it sent that is no protocol, before anybody knew who it is. One that said "no
// space left" had the server restarted, and every client cut off.
func TestWhatAClientSaysIsNoFailureOfTheStore(t *testing.T) {
	var out lockedBuffer
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&out, nil))})
	addr := strings.TrimPrefix(s.ClientURL(), "nats://")
	for _, text := range storeFailures {
		for _, says := range []string{
			fmt.Sprintf("CONNECT {\"verbose\":false,\"lang\":\"go\",\"version\":\"1\",\"name\":%q}\r\nNONSENSE\r\n", text),
			"C" + text + "\r\n", // asks nobody to be let in
		} {
			misbehave(t, addr, says)
			require.NoError(t, s.Failed())
		}
		require.Equal(t, 2, strings.Count(out.String(), text), "the lines are there: %s", out.String())
	}
	s.lines.Errorf("Filestore [EDICT_LOG] Critical write error: %v", "no space left on device")
	require.Error(t, s.Failed())
}

// TestClientsDoNotFillTheLog: a client that does what it may not, again and again, had a line
// for each time.
func TestClientsDoNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	l := newServerLog(slog.New(slog.NewTextHandler(&out, nil)))
	for i := range 10_000 {
		l.Errorf("127.0.0.1:%d - cid:%d - %q - Publish Violation - Subject %q", 1024+i, i, "v1.55.0:go:web", "edict.chain")
	}
	lines := strings.Count(out.String(), "\n")
	require.GreaterOrEqual(t, lines, clientBurst)
	require.Less(t, lines, 10_000)
	require.Contains(t, out.String(), "others like it are left out")
	before := out.Len()
	l.Errorf("Filestore [EDICT_LOG] Critical write error: disk")
	require.Greater(t, out.Len(), before, "what is about no client is always said")
	require.Error(t, l.storeFailure())
}

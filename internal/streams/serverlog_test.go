package streams

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/output"
)

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

// forgeDelay has the server complain about a delay, in a line that is about no client.
func forgeDelay(t *testing.T, url, says string) {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.CreateStream(within(t), jetstream.StreamConfig{Name: "MINE", Subjects: []string{"MINE"}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	_, err = js.Publish(within(t), "MINE", nil)
	require.NoError(t, err)
	c, err := stream.CreateConsumer(within(t), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	m, err := c.Next()
	require.NoError(t, err)
	require.NoError(t, nc.Publish(m.Reply(), []byte("-NAK "+says)))
	_, err = nc.RequestWithContext(within(t), m.Reply(), []byte("+ACK")) // answered behind the line
	require.NoError(t, err)
}

// TestWhatAClientSaysIsNoFailureOfTheStore: the server's lines about a client have the name
// that it gave itself, and what it sent that is no protocol, before anybody knew who it is. One that said "no
// space left" had the server restarted, and every client cut off.
func TestWhatAClientSaysIsNoFailureOfTheStore(t *testing.T) {
	var out output.Buffer
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
	forgeDelay(t, s.ClientURL(), "no space left")
	require.Contains(t, out.String(), "bad NAK delay value", "the line is there")
	require.NoError(t, s.Failed())
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

// TestANameHidesNoLine: a client whose name is like a line of the server that is said rarely, or
// not at all, is warned of like others, and a server that is full says so.
func TestANameHidesNoLine(t *testing.T) {
	var out bytes.Buffer
	l := newServerLog(slog.New(slog.NewTextHandler(&out, nil)))
	const full = "127.0.0.1:%d - cid:%d - maximum connections exceeded"
	for i, name := range []string{routine, "maximum connections exceeded", "maximum connections exceeded"} {
		l.Errorf("127.0.0.1:1 - cid:1 - %q - Publish Violation", name)
		require.Equal(t, i+1, strings.Count(out.String(), "Publish Violation"), name)
	}
	l.Errorf(full, 2, 2)
	require.Equal(t, 1, strings.Count(out.String(), "cid:2"), "a server that is full says so")
	l.Errorf(full, 3, 3)
	require.NotContains(t, out.String(), "cid:3", "once a minute")
}

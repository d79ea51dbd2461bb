package streams

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// appender lets a producer append nodes; whoever shows "root" may do anything.
type appender struct{}

func (appender) Admit(s Credentials) (Guest, bool) {
	if s.Token == "root" {
		return Guest{Name: "root", Account: AccountPlane}, true
	}
	return Guest{Name: s.Token, Account: AccountProducers, Hear: []string{"_INBOX.>"}, Publish: []string{wire.LogFilter(project, policy.FamilyNode, "*")}}, true
}

// TestAProducerSendsNoMoreThanAnEventCanBe: the server itself refuses what is
// larger, before it has read it, and after a restart as well. What the plane and its
// administrators send may be as large as before.
func TestAProducerSendsNoMoreThanAnEventCanBe(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0", Guard: appender{}})
	log := openLog(t, connect(t, ConnectOptions{Server: s}))
	subject := "edict.log." + project.String() + ".node.a"
	written := uint64(0)
	for range 2 {
		nc, err := nats.Connect(s.ClientURL(), nats.Token("producer"))
		require.NoError(t, err)
		require.NoError(t, nc.FlushTimeout(within20s))
		require.Eventually(t, func() bool { return nc.MaxPayload() == MaxProduced }, within20s, time.Millisecond, "the client is told")
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		_, err = js.Publish(within(t), subject, make([]byte, MaxProduced))
		require.NoError(t, err)
		nc.Close()
		written++

		raw, err := net.Dial("tcp", strings.TrimPrefix(s.ClientURL(), "nats://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(raw, "CONNECT {\"auth_token\":\"producer\",\"verbose\":false}\r\nPUB %s %d\r\n", subject, MaxProduced+1)
		require.NoError(t, err)
		said, _ := io.ReadAll(bufio.NewReader(raw)) // it is reset, or ends
		require.Contains(t, string(said), "-ERR 'Maximum Payload Violation'")
		raw.Close()

		root, err := nats.Connect(s.ClientURL(), nats.Token("root"))
		require.NoError(t, err)
		require.EqualValues(t, embeddedMaxPayload, root.MaxPayload())
		root.Close()
		require.Eventually(t, func() bool { // it finds a server that was restarted by itself
			state, err := log.State(within(t))
			return err == nil && state.Last == written
		}, within20s, time.Millisecond)
		require.NoError(t, s.Restart())
	}
}

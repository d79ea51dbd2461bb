package streams

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Who settles hears everything that is published from then on, in order, and
// again after the server was away.
func TestWhatIsPublishedIsHeard(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Relaxed: true})
	c := connect(t, ConnectOptions{URL: s.ClientURL()})
	heard := make(chan string, 1000)
	stop, err := c.Hear("edict.node.>", func(m Message) { heard <- m.Subject + " " + string(m.Body) + m.Get("Edict-Id") })
	require.NoError(t, err)
	defer stop()
	said := func(n int) {
		t.Helper()
		require.NoError(t, c.Settle(within(t)))
		nc, err := nats.Connect(s.ClientURL())
		require.NoError(t, err)
		defer nc.Close()
		require.NoError(t, nc.Publish("edict.report.node.n1", nil))
		for i := range n {
			require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "edict.node.n1.x", Data: fmt.Append(nil, i), Header: nats.Header{"Edict-Id": {"!"}}}))
		}
		require.NoError(t, nc.Flush())
		for i := range n {
			require.Equal(t, fmt.Sprintf("edict.node.n1.x %d!", i), <-heard)
		}
	}
	said(100)
	require.NoError(t, s.Restart())
	said(100)
}

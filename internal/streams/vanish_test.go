package streams

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// TestAPurgeOfTheLogIsAmongTheReasons: without access any client on the machine may purge the
// log, of which no file can be put back.
func TestAPurgeOfTheLogIsAmongTheReasons(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	log := openLog(t, connect(t, ConnectOptions{Server: s}))
	_, _, err := log.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	require.NoError(t, s.Vanished(), "its files were seen")
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(within(t), "EDICT_LOG")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(within(t)))
	require.ErrorContains(t, s.Vanished(), "the stream was purged")
	require.ErrorContains(t, s.Vanished(), "restore a backup")
}

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// TestTheExampleAppendsEventsThatDecode runs the example against a server with
// a stream of the log's subjects and reads back what it wrote.
func TestTheExampleAppendsEventsThatDecode(t *testing.T) {
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), Port: -1, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))

	ctx := context.Background()
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EDICT_LOG", Subjects: []string{"edict.log.>"}})
	require.NoError(t, err)

	const project = "00000000-0000-4000-8000-000000000000"
	var out bytes.Buffer
	require.NoError(t, run(ctx, s.ClientURL(), project, &out))
	require.Equal(t, "policy_revision_created is event 1 of EDICT_LOG\nnode_updated is event 2 of EDICT_LOG\n", out.String())

	for seq, family := range []string{"policy", "node"} {
		msg, err := stream.GetMsg(ctx, uint64(seq)+1)
		require.NoError(t, err)
		e, err := policy.Decode(msg.Data)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(msg.Subject, "edict.log."+project+"."+family+"."), msg.Subject)
		for name, want := range map[string]string{
			"Nats-Msg-Id": e.EventID().String(), "ce-id": e.EventID().String(), "ce-type": e.EventType(),
			"ce-specversion": "1.0", "ce-dataschema": "edict/v1",
		} {
			require.Equal(t, []string{want}, msg.Header[name], name)
		}
	}
}

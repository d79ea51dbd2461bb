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

const project = "00000000-0000-4000-8000-000000000000"

// startLog is a server with a stream of the log's subjects.
func startLog(t *testing.T) (context.Context, jetstream.JetStream, jetstream.Stream) {
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
	return ctx, js, stream
}

// TestTheExampleAppendsEventsThatDecode runs the example and reads back what it
// wrote.
func TestTheExampleAppendsEventsThatDecode(t *testing.T) {
	ctx, js, stream := startLog(t)
	var out bytes.Buffer
	require.NoError(t, run(ctx, js.Conn().ConnectedUrl(), project, &out))
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

// TestTheExampleAppendsAnEventWhoseIDIsTaken has somebody else use the event's
// message id before.
func TestTheExampleAppendsAnEventWhoseIDIsTaken(t *testing.T) {
	ctx, js, stream := startLog(t)
	event := object{"id": newID(), "type": "node_removed", "project_id": project, "node_id": "web-1"}
	_, err := js.Publish(ctx, "edict.log.somebody.else", []byte("{}"), jetstream.WithMsgID(event["id"].(string)))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, publish(ctx, js, &out, "edict.log."+project+".node.web-1", event))
	require.Equal(t, "node_removed is event 2 of EDICT_LOG\n", out.String())
	msg, err := stream.GetMsg(ctx, 2)
	require.NoError(t, err)
	require.Contains(t, string(msg.Data), "web-1")
}

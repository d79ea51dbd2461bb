package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	planeaccess "github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/policy"
)

const project = "00000000-0000-4000-8000-000000000000"

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// startPlane runs a plane, and gives what it takes to read its log.
func startPlane(t *testing.T) (context.Context, jetstream.JetStream, jetstream.Stream) {
	ctx, p := t.Context(), binary.Serve(t, "--durability", "relaxed")
	nc, err := nats.Connect(p.NATS)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(ctx, "EDICT_LOG")
	require.NoError(t, err)
	return ctx, js, stream
}

// TestTheExampleAppendsEventsThatDecode runs the example and reads back what it
// wrote.
func TestTheExampleAppendsEventsThatDecode(t *testing.T) {
	ctx, js, stream := startPlane(t)
	var out bytes.Buffer
	require.NoError(t, run(ctx, js.Conn().ConnectedUrl(), project, access{}, &out))
	require.Equal(t, "policy_revision_created is event 1: applied\nnode_updated is event 2: applied\n", out.String())

	for seq, family := range []string{"policy", "node"} {
		msg, err := stream.GetMsg(ctx, uint64(seq)+1)
		require.NoError(t, err)
		e, err := policy.Decode(msg.Data)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(msg.Subject, "edict.log."+project+"."+family+"."), msg.Subject)
		for name, want := range map[string]string{
			"Nats-Msg-Id": e.EventID().String(), "ce-id": e.EventID().String(), "ce-type": e.EventType(),
			"ce-specversion": "1.0", "ce-dataschema": "urn:edict:schema:v1",
		} {
			require.Equal(t, []string{want}, msg.Header[name], name)
		}
	}
}

func TestTheExampleProvesWhoItIs(t *testing.T) {
	dir := t.TempDir()
	text, kept := planeaccess.NewToken(uuid.New(), time.Time{})
	of := policy.Relation{Kind: policy.ObjectProject, ID: uuid.MustParse(project)}
	operator, manage := of, of
	operator.Name, manage.Name = policy.RelationOperator, policy.RelationManage
	principals := planeaccess.File{"cmdb": {
		Principal: policy.Principal{Kind: policy.Service, Tokens: []policy.Token{kept}},
		Relations: []policy.Relation{operator, manage},
	}}
	page, err := os.ReadFile("../../producers.md")
	require.NoError(t, err)
	for _, r := range principals["cmdb"].Relations { // what it needs stands where a reader is told to run it
		require.Contains(t, string(page), "--relation "+strings.Replace(r.String(), project, "$PROJECT", 1)+" ", "docs/producers.md")
	}
	require.NoError(t, principals.Write(filepath.Join(dir, "access.json")))
	who := access{principal: "cmdb", token: filepath.Join(dir, "cmdb.token")}
	require.NoError(t, os.WriteFile(who.token, []byte(text+"\n"), 0o600))
	p := binary.Serve(t, "--durability", "relaxed", "--access", filepath.Join(dir, "access.json"))
	var out bytes.Buffer
	require.Error(t, run(t.Context(), p.NATS, project, access{}, &out))
	require.NoError(t, run(t.Context(), p.NATS, project, who, &out))
	require.Equal(t, "policy_revision_created is event 1: applied\nnode_updated is event 2: applied\n", out.String())
}

func TestTheExampleFailsWhereItsEventIsRejected(t *testing.T) {
	ctx, js, _ := startPlane(t)
	require.NoError(t, run(ctx, js.Conn().ConnectedUrl(), project, access{}, io.Discard))
	var out bytes.Buffer
	require.ErrorContains(t, run(ctx, js.Conn().ConnectedUrl(), project, access{}, &out), "policy_revision_created, event 3, is rejected: policy_slug_taken: ")
	require.Empty(t, out.String())
}

// TestTheExampleDoesNotLoseAnEventToAnotherOfItsID sends an id again with another
// body, which JetStream acknowledges and drops.
func TestTheExampleDoesNotLoseAnEventToAnotherOfItsID(t *testing.T) {
	ctx, js, _ := startPlane(t)
	event := object{"id": newID(), "type": "node_updated", "project_id": project, "node_id": "web-1", "labels": object{"role": "web"}, "addresses": []string{}}
	var out bytes.Buffer
	send := func() error { return publish(ctx, js, &out, "edict.log."+project+".node.web-1", event) }
	require.NoError(t, send())
	require.NoError(t, send(), "the same event again")
	require.Equal(t, strings.Repeat("node_updated is event 1: applied\n", 2), out.String())
	event["labels"] = object{"role": "db"}
	require.ErrorContains(t, send(), "node_updated, event 1, is rejected: duplicate_id: ")
}

// TestTheExampleAppendsAnEventWhoseIDIsTaken has somebody else use the event's
// message id before.
func TestTheExampleAppendsAnEventWhoseIDIsTaken(t *testing.T) {
	ctx, js, stream := startPlane(t)
	event := object{"id": newID(), "type": "node_removed", "project_id": project, "node_id": "web-1"} // which is not there
	_, err := js.Publish(ctx, "edict.log.somebody.node.else", []byte("{}"), jetstream.WithMsgID(event["id"].(string)))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, publish(ctx, js, &out, "edict.log."+project+".node.web-1", event))
	require.Equal(t, "node_removed is event 2: duplicate\n", out.String())
	msg, err := stream.GetMsg(ctx, 2)
	require.NoError(t, err)
	require.Contains(t, string(msg.Data), "web-1")
}

// TestTheExampleAsksAgainWhatAWorkerLeavesUnanswered: a worker that is paused, or ends, has
// a question and answers nothing.
func TestTheExampleAsksAgainWhatAWorkerLeavesUnanswered(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir()})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(20*time.Second))
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EDICT_LOG", Subjects: []string{"edict.log.>"}})
	require.NoError(t, err)
	asked := 0
	_, err = nc.Subscribe("edict.verdict.>", func(m *nats.Msg) {
		switch asked++; asked {
		case 1:
		case 2:
			_ = m.Respond([]byte(`{"seq":1,"code":"behind","detail":"it folds"}`))
		default:
			_ = m.Respond([]byte(`{"seq":1,"verdict":"applied"}`))
		}
	})
	require.NoError(t, err)
	patience := answerPatience
	answerPatience = 50 * time.Millisecond
	defer func() { answerPatience = patience }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	event := object{"id": newID(), "type": "node_updated", "project_id": project, "node_id": "web-1", "labels": object{"role": "web"}, "addresses": []string{}}
	require.NoError(t, publish(ctx, js, &out, "edict.log."+project+".node.web-1", event))
	require.Equal(t, "node_updated is event 1: applied\n", out.String())
}

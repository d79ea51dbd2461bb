package plane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
)

// facts is an event about a node, and its id.
func facts(project, node, labels string) (id string, body []byte) {
	id = uuid.NewString()
	return id, fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":%s,"addresses":[]}`, id, project, node, labels)
}

// appendTo publishes an event to the log and returns where it stands.
func (w who) appendTo(subject, msgID string, body []byte) (seq uint64, duplicate bool) {
	require.NoError(w.t, w.on(func(nc *nats.Conn) error {
		m, err := nc.RequestMsg(&nats.Msg{Subject: subject, Header: nats.Header{"Nats-Msg-Id": {msgID}}, Data: body}, 20*time.Second)
		if err != nil {
			return err
		}
		var ack struct {
			Seq       uint64
			Duplicate bool
		}
		err = json.Unmarshal(m.Data, &ack)
		seq, duplicate = ack.Seq, ack.Duplicate
		return err
	}))
	return seq, duplicate
}

// learns asks what became of an event. Its body is what nats request sends.
func (w who) learns(project string, seq uint64, question string) (x projector.Answer) {
	require.NoError(w.t, w.on(func(nc *nats.Conn) error {
		m, err := nc.Request(fmt.Sprintf("edict.verdict.%s.%d", project, seq), []byte(question), 20*time.Second)
		if err != nil {
			return err
		}
		return json.Unmarshal(m.Data, &x)
	}))
	return x
}

func TestAProducerLearnsWhatBecameOfItsEvents(t *testing.T) {
	for name, external := range map[string]bool{"embedded server": false, "server of another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, external)
			author, stranger := who{g, "author"}, who{g, "stranger"}
			on := func(project, node string) string { return "edict.log." + project + ".node." + node }

			id, body := facts(ours, "web", `{"role":"web"}`)
			seq, _ := author.appendTo(on(ours, "web"), id, body)
			require.Equal(t, projector.Answer{Seq: seq, EventID: id, Type: "node_updated", Verdict: "applied"}, author.learns(ours, seq, ""))
			again, _ := author.appendTo(on(ours, "web"), "another", body)
			require.Equal(t, "duplicate", author.learns(ours, again, "").Verdict)

			foreign, foreignBody := facts(theirs, "web", "{}")
			taken, _ := stranger.appendTo(on(theirs, "web"), foreign, foreignBody)
			refused := stranger.learns(theirs, taken, "")
			require.Equal(t, "rejected", refused.Verdict)
			require.Equal(t, "node_id_taken", refused.Code)
			require.Equal(t, "event_not_found", author.learns(ours, taken, "").Code, "of another project")
			require.Equal(t, "event_not_found", author.learns(ours, taken+100, "").Code, "beyond the log's end")
		})
	}
}

// TestAnEventLostToItsMessageIDIsTold: JetStream acknowledges an event whose id it
// knows, and drops it.
func TestAnEventLostToItsMessageIDIsTold(t *testing.T) {
	g := startGuarded(t, false)
	author, stranger := who{g, "author"}, who{g, "stranger"}
	subject := "edict.log." + ours + ".node.web"
	means := func(id string, body []byte) string {
		sum := sha256.Sum256(body)
		return fmt.Sprintf(`{"event_id":%q,"sha256":%q}`, id, hex.EncodeToString(sum[:]))
	}
	id, body := facts(ours, "web", `{"role":"web"}`)
	seq, _ := author.appendTo(subject, id, body)
	other := fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":"web","labels":{"role":"db"},"addresses":[]}`, id, ours)
	at, duplicate := author.appendTo(subject, id, other)
	require.True(t, duplicate)
	require.Equal(t, seq, at)
	require.Equal(t, "applied", author.learns(ours, at, means(id, body)).Verdict, "the first")
	lost := author.learns(ours, at, means(id, other))
	require.Equal(t, "rejected", lost.Verdict)
	require.Equal(t, "duplicate_id", lost.Code)
	require.Equal(t, id, lost.EventID, "it is an event of the project")

	// Somebody of another project has used the id.
	id, body = facts(ours, "web", `{"role":"web2"}`)
	_, theirBody := facts(theirs, "x", "{}")
	stranger.appendTo("edict.log."+theirs+".node.x", id, theirBody)
	at, duplicate = author.appendTo(subject, id, body)
	require.True(t, duplicate)
	lost = author.learns(ours, at, means(id, body))
	require.Equal(t, "duplicate_id", lost.Code)
	require.Empty(t, lost.EventID, "nothing is said of the other event")
}

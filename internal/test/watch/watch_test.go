package watch

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

var web = uuid.UUID{15: 1}

// sealed is a run of envelopes of node n1 as the plane seals them, with headers.
func sealed(t *testing.T, s *artifact.Signer, ids ...policy.EventID) (list []*nats.Msg) {
	t.Helper()
	rules, err := artifact.PrepareRules([]byte(`[{"protocol":"any"}]`), 0)
	require.NoError(t, err)
	var run []artifact.Message
	for _, id := range ids {
		seq, _ := id.Seq(1000)
		run = append(run, artifact.Message{Node: "n1", Policy: web, Revision: web, Version: seq, GeneratedAt: time.Now(), Rules: rules})
	}
	_, err = s.SealRuns(nil, run, func(i int, wire []byte) {
		id := "n1." + ids[i].String()
		list = append(list, &nats.Msg{Subject: "edict.node.n1." + web.String(), Data: wire, Header: nats.Header{
			"Edict-Id": {id}, "Nats-Msg-Id": {id}, "ce-id": {id}, "Edict-Event-Id": {ids[i].String()}, "Edict-Prev": {"0"},
			"Edict-Type": {"policy_updated"}, "ce-type": {"policy_updated"}, "ce-specversion": {"1.0"}, "Edict-Log-Seq": {fmt.Sprint(run[i].Version)},
		}})
	})
	require.NoError(t, err)
	return list
}

func TestWhatThePlaneSealsIsRead(t *testing.T) {
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	keys := Keys{s.KeyID(): s.PublicKey()}
	ids := []policy.EventID{policy.NewEventID(1000, 5, 0), policy.NewEventID(1000, 6, 0), policy.NewEventID(1000, 7, 0)}
	for _, n := range []int{1, 3} {
		for i, m := range sealed(t, s, ids[:n]...) {
			f, err := ReadMessage(m, keys)
			require.NoError(t, err)
			require.Equal(t, ids[i], f.ID)
			require.Equal(t, uint64(5+i), f.Version)
			require.Equal(t, `[{"protocol":"any"}]`, f.Rules)
			require.Equal(t, "n1", f.Node)
			require.NotEmpty(t, f.Policy)
		}
	}
	for name, change := range map[string]func(m *nats.Msg){
		"another id":       func(m *nats.Msg) { m.Header.Set("Edict-Event-Id", "9") },
		"another subject":  func(m *nats.Msg) { m.Subject = "edict.node.n2." + web.String() },
		"another type":     func(m *nats.Msg) { m.Header.Set("Edict-Type", "artifact_updated") },
		"one after before": func(m *nats.Msg) { m.Header.Set("Edict-Prev", "18446744073709551615") },
		"another body":     func(m *nats.Msg) { m.Data = []byte(string(m.Data[:len(m.Data)-2]) + "9}") },
	} {
		m := sealed(t, s, ids...)[1]
		change(m)
		_, err := ReadMessage(m, keys)
		var frame *FrameError
		require.ErrorAs(t, err, &frame, name)
	}
}

func TestNoticesAreReadInEitherForm(t *testing.T) {
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	payload := artifact.PolicyPayload{NodeID: "n1", PolicyID: web, RevisionID: web, Fingerprint: sha256.Sum256([]byte("[]")), Rules: json.RawMessage("[]")}.Append(nil)
	notice := artifact.Notice{ID: "n1.42", Type: "policy_updated", Scope: "node:n1", IssuedAt: time.Now(), Payload: payload}
	r := artifact.NewNoticeRun(s)
	for range 3 {
		r.Add(notice)
	}
	inRun := r.Sign().AppendNotice(nil, 1, notice)
	plain := s.AppendNotice(nil, notice)
	id, accepts := "42", []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepts = append(accepts, r.Header.Get("Accept"))
		doc := plain
		if r.Header.Get("Accept") == Batch {
			doc = inRun
		}
		fmt.Fprintf(w, "id: %s\nevent: x\ndata: %s\n\n", id, doc)
	}))
	defer server.Close()
	keys := Keys{s.KeyID(): s.PublicKey()}
	for _, accept := range []string{"text/event-stream", Batch} {
		var got []Frame
		require.NoError(t, StreamIn(t.Context(), accept, server.Client(), server.URL, "", keys, func(f Frame) bool { got = append(got, f); return true }))
		require.Len(t, got, 1)
		require.Equal(t, policy.EventID(42), got[0].ID)
		require.Equal(t, base64.StdEncoding.EncodeToString(payloadPrint()), got[0].Fingerprint)
	}
	require.Equal(t, []string{"text/event-stream", Batch}, accepts)
	id = "43"
	var frame *FrameError
	require.ErrorAs(t, Stream(t.Context(), server.Client(), server.URL, "", keys, func(Frame) bool { return true }), &frame)
}

// TestAKeyIsAnnouncedDuringItsTransition, whenever it is read: the plane's clock is what counts.
func TestAKeyIsAnnouncedDuringItsTransition(t *testing.T) {
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	payload, err := json.Marshal(map[string]any{"key_id": s.KeyID(), "public_key": s.PublicKey(), "previous_key_id": "old", "transition_expires": until})
	require.NoError(t, err)
	keys := Keys{}
	require.ErrorContains(t, keys.rotate(&notice{KeyID: "old", IssuedAt: until, Payload: payload}), "until "+until.String())
	require.ErrorContains(t, keys.rotate(&notice{KeyID: "another", IssuedAt: until.Add(-1), Payload: payload}), "another announces")
	require.Empty(t, keys)
	require.NoError(t, keys.rotate(&notice{KeyID: "old", IssuedAt: until.Add(-1), Payload: payload}))
	require.Equal(t, Keys{s.KeyID(): s.PublicKey()}, keys)
}

func payloadPrint() []byte {
	sum := sha256.Sum256([]byte("[]"))
	return sum[:]
}

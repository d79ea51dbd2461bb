package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// TestAStrangersMessageDoesNothing has a client that may publish anywhere put
// messages of its own on a node's subjects: under a name that nobody has, and as
// rules that the plane never gave, unsigned and signed by somebody else, with ids
// far ahead. Once that stopped a node's resume for good, and what was forged came
// over SSE signed by the plane. Now nobody but who listens there meets it, and who
// listens refuses it.
func TestAStrangersMessageDoesNothing(t *testing.T) {
	p := serve(t)
	s := &story{process: p, policies: map[string]head{}}
	s.keys = p.publicKeys()
	s.label("a", map[string]string{"role": "web"})
	s.create("one", "role=web", "role=nobody", []oracle.Rule{tcp(80)})
	_, at := p.state("a")
	over := newLedger("a")
	go followSSE(t.Context(), p, over, s.keys)
	got := make(chan node.Event, 100)
	connected := make(chan struct{}, 10)
	f := node.NewFollower("http://"+p.http, "a", node.Options{NATS: "nats://" + p.nats, Connected: func() { connected <- struct{}{} }})
	ended := make(chan error, 1)
	go func() {
		ended <- f.Run(t.Context(), func(e node.Event) error {
			got <- e
			return nil
		})
	}()
	next := func() (e node.Event) {
		t.Helper()
		select {
		case e = <-got:
		case <-time.After(20 * time.Second):
			require.Fail(t, "nothing comes over NATS")
		}
		return e
	}
	<-connected // and it knows what it has

	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(t, err)
	defer nc.Close()
	heard, err := nc.SubscribeSync("edict.node.a.>")
	require.NoError(t, err)
	ahead := at + 1000<<22
	forged := fmt.Appendf(nil, `{"schema_version":1,"plane":"policy","kind":"policy","name":%q,"version":99,"node":"a","generated_at":"2026-11-20T12:00:00Z",
		"payload":{"node_id":"a","policy_id":%q,"revision_id":%q,"fingerprint":%q,"rules":[]},"signature":{"alg":"ed25519","key_id":"ed25519:0011223344556677","value":"AAAA"}}`,
		s.policies["one"].id, s.policies["one"].id, s.policies["one"].revision, oracle.EmptyFingerprint)
	for _, name := range []string{"x", "x.y.z", "state", s.policies["one"].id} {
		for _, body := range [][]byte{nil, []byte("{}"), forged} {
			require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "edict.node.a." + name, Data: body, Header: nats.Header{
				"Edict-Event-Id": {ahead.String()}, "Edict-Prev": {at.String()}, "Edict-Type": {"policy_updated"},
				"Edict-Id": {"a." + ahead.String()}, "Nats-Msg-Id": {"a." + ahead.String()},
			}}))
			_, err := heard.NextMsg(10 * time.Second)
			require.NoError(t, err, "it is said")
		}
	}
	require.NoError(t, nc.Flush())

	s.revise("one", "role=web", "role=nobody", []oracle.Rule{tcp(443)})
	want := s.plane.Rows("a")
	require.True(t, waitFor(20*time.Second, func() bool { return over.differs(want) == "" }), "over SSE: %s", over.differs(want))
	for {
		e := next()
		if e.Policy != nil && strings.Contains(string(e.Policy.Rules), "443") {
			require.Less(t, e.ID, ahead)
			break
		}
		require.NotContains(t, fmt.Sprint(e.ID), ahead.String())
	}
	require.NotZero(t, f.Refused())
	for _, m := range over.since(0) {
		require.Less(t, m.ID, ahead, "nothing of the stranger's")
	}
	// Who comes back is answered as ever.
	again := p.frames("a", at.String(), 1, s.keys)
	require.Equal(t, want[0].Fingerprint, again[0].Fingerprint)
	require.Less(t, again[0].ID, ahead)
}

// TestAStreamOfAnEarlierPlaneIsLeftAlone starts a plane beside an EDICT_NODES of
// the past. It is named once and not touched, nothing of it is believed, and whoever
// comes with an id of it pulls.
func TestAStreamOfAnEarlierPlaneIsLeftAlone(t *testing.T) {
	p := serve(t)
	s := &story{process: p, policies: map[string]head{}}
	s.keys = p.publicKeys()
	s.label("a", map[string]string{"role": "web"})
	s.create("one", "role=web", "role=nobody", []oracle.Rule{tcp(80)})
	nc, err := nats.Connect("nats://"+p.nats, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "EDICT_NODES", Subjects: []string{"edict.node.>", "edict.fence.*", "edict.mark.>"}, MaxMsgsPerSubject: 1, FirstSeq: 1_764_000_000_000_000,
	})
	require.NoError(t, err)
	old, err := js.Publish(t.Context(), "edict.fence.0", []byte(`{"owner":"x"}`))
	require.NoError(t, err)
	p.kill()
	said := p.log.Len()
	p.start()
	first := p.frames("a", fmt.Sprint(old.Sequence), 2, s.keys)
	require.True(t, first[0].Pull, "ids of the stream lie below every id")
	require.Equal(t, s.policies["one"].id, first[1].Policy)
	require.Greater(t, first[0].ID, policy.EventID(old.Sequence))
	p.announced()
	stream, err := js.Stream(t.Context(), "EDICT_NODES")
	require.NoError(t, err)
	m, err := stream.GetMsg(t.Context(), old.Sequence)
	require.NoError(t, err)
	require.JSONEq(t, `{"owner":"x"}`, string(m.Data))
	p.terminate()
	require.Equal(t, 1, strings.Count(p.log.String()[said:], "EDICT_NODES"), "%s", p.log.String()[said:])
}

// TestAnUnknownNodeIsTold says so over both transports; a quiet node is no
// unknown one.
func TestAnUnknownNodeIsTold(t *testing.T) {
	p := serve(t)
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/quiet", map[string]any{"labels": map[string]string{}, "addresses": []string{}}, 201)
	l := p.listener("quiet")
	m := l.since("quiet", "0")
	require.Empty(t, m.Header.Get("Edict-Error"))
	require.NotEmpty(t, m.Header.Get("Edict-Up-To"))
	require.Equal(t, "true", m.Header.Get("Edict-Resync"))
	m = l.since("quiet", m.Header.Get("Edict-Up-To"))
	require.NotEmpty(t, m.Header.Get("Edict-Up-To"))
	require.Empty(t, m.Header.Get("Edict-Resync"))
	require.Equal(t, "node_not_found", l.since("nobody", "0").Header.Get("Edict-Error"))
	var problem struct{ Code string }
	resp, err := http.Get("http://" + p.http + "/v1/nodes/nobody/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&problem))
	require.Equal(t, "node_not_found", problem.Code)
}

package main

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crowdBefore is a crowd of n before a plain hub.
func crowdBefore(t *testing.T, n int) (*hub, *crowd, func(topic string, cause uint64)) {
	h := newHub()
	server := httptest.NewServer(h.handler())
	t.Cleanup(server.Close)
	var paths []string
	for i := range n {
		paths = append(paths, "/events/"+string(nodeName(i)))
	}
	c := newCrowd(strings.TrimPrefix(server.URL, "http://"), paths)
	t.Cleanup(c.part)
	return h, c, func(topic string, cause uint64) {
		require.NoError(t, post(t.Context(), server.Client(), server.URL+"/publish"+topic, padded(cause, 200)))
	}
}

func TestACrowdHearsEachEventOnceAndGoesOnWhereItWas(t *testing.T) {
	_, c, publish := crowdBefore(t, 5)
	require.NoError(t, c.connect(t.Context(), 2, false))
	publish("", 1)
	publish("/"+string(nodeName(3)), 2)
	require.NoError(t, c.await(t.Context(), 6))
	require.Equal(t, 200, c.eventBytes())
	c.part()
	require.NoError(t, c.check([][]uint64{{1}, {1}, {1}, {1, 2}, {1}}))

	publish("", 3)
	publish("", 4)
	require.NoError(t, c.connect(t.Context(), 5, true))
	require.NoError(t, c.await(t.Context(), 10))
	c.part()
	require.NoError(t, c.check([][]uint64{{3, 4}, {3, 4}, {3, 4}, {3, 4}, {3, 4}}))
}

func TestACrowdTellsWhatIsLostAndWhatCameTwice(t *testing.T) {
	_, c, publish := crowdBefore(t, 2)
	require.NoError(t, c.connect(t.Context(), 2, false))
	publish("", 1)
	publish("/"+string(nodeName(1)), 1)
	require.NoError(t, c.await(t.Context(), 3))
	c.part()
	err := c.check([][]uint64{{1, 2}, {1}})
	require.ErrorContains(t, err, "node-000000 heard of event 2 0 times")
	require.ErrorContains(t, err, "node-000001 heard of event 1 2 times")
}

func TestTheHistoryHasTheRowsItSays(t *testing.T) {
	h := newHistory(40)
	kinds := map[string]int{}
	head := map[string]bool{}
	for range 2_000 {
		e := h.next()
		kinds[e.EventType()]++
		if r, ok := e.(policy.RevisionCreated); ok {
			id := r.Policy.String()
			require.Equal(t, head[id], r.Revision.Parent != [16]byte{}, "the first revision alone has no parent")
			head[id] = true
		}
	}
	require.Equal(t, 40*foldEach, h.rows())
	require.Greater(t, kinds[policy.TypeNodeUpdated], 900)
	require.Greater(t, kinds[policy.TypeRevisionCreated], foldPolicies-foldEach)
}

func TestTheSameSeedWritesTheSameEvents(t *testing.T) {
	a, b := newHistory(10), newHistory(10)
	for range 1_500 {
		require.Equal(t, policy.Append(nil, a.next()), policy.Append(nil, b.next()))
	}
}

func TestTheFloorTakesAsManyBytes(t *testing.T) {
	c, err := newCapture(64)
	require.NoError(t, err)
	defer c.free()
	m := &nats.Msg{Subject: "edict.node.n.p", Data: []byte("body"), Header: nats.Header{"Nats-Msg-Id": {"x"}, "Edict-Id": {"y"}}}
	require.NoError(t, c.add(m))
	require.NoError(t, c.add(&nats.Msg{Subject: "edict.node.m.p", Data: []byte("other"), Header: nats.Header{}}))
	require.ErrorIs(t, c.add(&nats.Msg{Data: make([]byte, 64)}), errFull)
	file := filepath.Join(t.TempDir(), "messages")
	require.NoError(t, c.write(file))
	msgs, err := readCapture(file, publisherPrefix)
	require.NoError(t, err)
	require.Len(t, msgs, 2)
	require.Equal(t, "plain.edict.node.n.p", msgs[0].Subject)
	require.Equal(t, m.Header, msgs[0].Header)
	require.Equal(t, m.Data, msgs[0].Data)
	require.Equal(t, "other", string(msgs[1].Data))
}

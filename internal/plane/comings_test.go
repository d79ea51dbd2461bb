package plane

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// footprint is what a plane leaves on its NATS server beside its log, and the witness,
// which has one link for a thousand events.
type footprint struct {
	streams       map[string]left
	subscriptions uint32
}

// left is what there is of one stream.
type left struct {
	consumers, subjects int
	messages            uint64
}

func footprintOf(t *testing.T, ns *server.Server, js jetstream.JetStream) (f footprint, bytes uint64) {
	t.Helper()
	f = footprint{streams: map[string]left{}, subscriptions: ns.NumSubscriptions()}
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		require.NoError(t, err)
		kept := left{consumers: info.State.Consumers}
		if name != streams.LogStream && name != "EDICT_CHAIN" {
			kept.subjects, kept.messages = len(info.State.Subjects), info.State.Msgs
			bytes += info.State.Bytes
		}
		f.streams[name] = kept
	}
	require.NoError(t, names.Err())
	return f, bytes
}

// Nodes come, are followed over NATS and SSE, ask for their replay, are told of
// changes, and go. However many have, NATS holds no more than after the first of them.
func TestNodesThatComeAndGoLeaveNothingInNATS(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 1000, 3
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	file, _ := newKeyFile(t)
	p := running(t, Options{Data: t.TempDir(), HTTP: "127.0.0.1:0", NATS: ns.ClientURL(), SigningKey: file, Relaxed: true})
	p.serves(t)
	c := newClient(t, p.Addresses())
	nc, err := nats.Connect(ns.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	made, err := c.Policies.Create(t.Context(), project, resource.Draft{
		Slug: "web", Selector: resource.Selector{Source: "role=web", Destination: "role=web"}, Rules: allow(1),
	})
	require.NoError(t, err)

	publish := func(round int, event func(id policy.NodeID) policy.Event) {
		var as []streams.Append
		for i := range nodes {
			as = append(as, streams.Append{Bulk: true, Event: event(policy.NodeID(fmt.Sprintf("n-%d-%d", round, i)))})
		}
		seqs, err := p.stream.PublishAll(t.Context(), as)
		require.NoError(t, err)
		require.NoError(t, p.store.Wait(t.Context(), seqs[len(seqs)-1]))
	}
	var before footprint
	var bytes uint64
	for round := range rounds {
		publish(round, func(id policy.NodeID) policy.Event {
			labels, err := policy.NewLabels(map[string]string{"role": "web", "rack": fmt.Sprint(len(id) % 7)}, "")
			require.NoError(t, err)
			return policy.NodeUpdated{ID: uuid.New(), Project: project, Node: id, Labels: labels}
		})
		followed := p.follow(t, ns.ClientURL(), round)
		_, err := c.Policies.Revise(t.Context(), project, made.ID, resource.Patch{Rules: allow(uint16(round + 2))})
		require.NoError(t, err)
		followed(t)
		publish(round, func(id policy.NodeID) policy.Event {
			return policy.NodeRemoved{ID: uuid.New(), Project: project, Node: id}
		})
		require.Eventually(t, func() bool {
			status, err := c.Status(t.Context(), false)
			return err == nil && status.Nodes == 0 && status.Partitions[0].UpTo == status.Applied
		}, 20*time.Second, 5*time.Millisecond, "what is told of them is told")
		if round < 2 {
			before, bytes = footprintOf(t, ns, js)
			continue
		}
		var now footprint
		var has uint64
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !reflect.DeepEqual(before, now); {
			now, has = footprintOf(t, ns, js) // a connection that closed is noticed when it is
		}
		require.Equal(t, before, now, "after round %d as after the second", round+1)
		require.LessOrEqual(t, has, bytes+4096, "a record of a worker may say more digits")
	}
}

// follow has some of a round's nodes follow their subject and their event stream, and
// ask for what they missed. What is returned waits until they heard a change, and ends
// them.
func (p *Plane) follow(t *testing.T, url string, round int) func(t *testing.T) {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	transport := &http.Transport{}
	var subs []*nats.Subscription
	var bodies []*http.Response
	for i := range 200 {
		id := fmt.Sprintf("n-%d-%d", round, i)
		sub, err := nc.SubscribeSync("edict.node." + id + ".>")
		require.NoError(t, err)
		subs = append(subs, sub)
		if i >= 20 {
			continue
		}
		_, err = nc.Request("edict.replay.node."+id, []byte(`{"after":"0"}`), 20*time.Second)
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Addresses().HTTP+"/v1/nodes/"+id+"/events", nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		bodies = append(bodies, resp)
	}
	require.NoError(t, nc.Flush())
	return func(t *testing.T) {
		t.Helper()
		for _, sub := range subs {
			_, err := sub.NextMsg(20 * time.Second)
			require.NoError(t, err, sub.Subject)
		}
		for _, resp := range bodies {
			_, err := resp.Body.Read(make([]byte, 1))
			require.NoError(t, err)
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
		nc.Close()
	}
}

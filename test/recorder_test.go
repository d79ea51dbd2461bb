package test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/test/check"
	"github.com/edictdev/edict/test/plexd"
	"github.com/edictdev/edict/test/watch"
)

// planePartitions is what serve makes a log with.
const planePartitions = 64

// recorder follows nodes of planes that come and go, and hears what the node
// stream stores, as far as it is connected.
type recorder struct {
	t      *testing.T
	nc     *nats.Conn
	keys   watch.Keys
	sse    []*watch.Follower
	native []*watch.Follower
	agents []*hand
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	heard []check.Frame
	later []*nats.Msg // of keys that were announced since, to be judged at the end
}

// record starts to follow: base is where a node's stream is now, servers where
// NATS answers.
func record(t *testing.T, servers string, keys watch.Keys, nodes []string, base func(node int) string) *recorder {
	t.Helper()
	nc, err := nats.Connect(servers, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // it comes back
	require.NoError(t, err)
	r := &recorder{t: t, nc: nc, keys: keys}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	t.Cleanup(func() { r.end(); nc.Close() })
	sub, err := nc.Subscribe("edict.live.node.>", func(m *nats.Msg) {
		f, err := watch.ReadMessage(m, keys)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.later = append(r.later, m)
			return
		}
		r.heard = append(r.heard, f)
	})
	require.NoError(t, err)
	require.NoError(t, sub.SetPendingLimits(-1, -1))
	client := &http.Client{Transport: &http.Transport{}}
	for i, n := range nodes {
		sse := &watch.Follower{Node: n, Keys: maps.Clone(keys), Client: client}
		native := &watch.Follower{Node: n, Keys: maps.Clone(keys), Client: client, NATS: nc}
		r.sse, r.native = append(r.sse, sse), append(r.native, native)
		r.done.Go(func() { sse.Follow(ctx, func() string { return base(i) }) })
		r.agents = append(r.agents, hire(t, n, func() string { return base(i) }, plexd.Options{
			Identity: acquainted(n, keys), Terse: true, Periods: storyPeriods,
		}))
		r.done.Go(func() {
			for ctx.Err() == nil {
				_ = native.Ask(base(i), 200*time.Millisecond) // asked again at once
				pauseFor(ctx, 50*time.Millisecond)
			}
		})
	}
	return r
}

func (r *recorder) end() {
	r.cancel()
	r.done.Wait()
	for _, h := range r.agents {
		h.end()
	}
}

// settled waits until everybody has heard the last word about his node.
func (r *recorder) settled() {
	r.t.Helper()
	last := map[string]uint64{}
	stored, _ := r.read("EDICT_NODES", "edict.node.>")
	for _, m := range stored {
		node := strings.Split(m.Subject(), ".")[2]
		last[node] = max(last[node], sequence(r.t, m))
	}
	for _, f := range slices.Concat(r.sse, r.native) {
		require.True(r.t, waitFor(30*time.Second, func() bool {
			at, _ := f.At()
			return at >= last[f.Node]
		}), "%s does not hear the last word about it", f.Node)
	}
	for _, h := range r.agents {
		require.True(r.t, waitFor(30*time.Second, func() bool {
			_, first, at := h.heard()
			return at >= last[h.node] || first == 0
		}), "the agent of %s does not hear the last word about it, %d: %v, %+v", h.node, last[h.node], h.met(), h.Counters())
	}
}

// read reads a stream whole.
func (r *recorder) read(stream string, subjects ...string) (msgs []jetstream.Msg, state jetstream.StreamInfo) {
	r.t.Helper()
	js, err := jetstream.New(r.nc)
	require.NoError(r.t, err)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	require.NoError(r.t, err)
	info, err := s.Info(ctx)
	require.NoError(r.t, err)
	c, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: subjects})
	require.NoError(r.t, err)
	for {
		batch, err := c.FetchNoWait(5000)
		require.NoError(r.t, err)
		n := 0
		for m := range batch.Messages() {
			msgs = append(msgs, m)
			n++
		}
		if errors.Is(batch.Error(), nats.ErrNoResponders) && ctx.Err() == nil {
			continue // the consumer's place in a cluster is not settled yet
		}
		require.NoError(r.t, batch.Error())
		if n == 0 {
			return msgs, *info
		}
	}
}

func sequence(t *testing.T, m jetstream.Msg) uint64 {
	meta, err := m.Metadata()
	require.NoError(t, err)
	return meta.Sequence.Stream
}

// stored is what the node stream retains for nodes.
func (r *recorder) stored(keys watch.Keys) (all []check.Frame) {
	msgs, _ := r.read("EDICT_NODES", "edict.node.>")
	for _, m := range msgs {
		f, err := watch.ReadStored(m.Headers().Get("Edict-Id"), m.Data(), keys)
		require.NoError(r.t, err)
		f.Seq = sequence(r.t, m)
		all = append(all, f)
	}
	return all
}

// run ends the recording and gathers it, with what the streams hold. log is the
// bodies of all events.
func (r *recorder) run() (run *check.Run, log [][]byte) {
	r.t.Helper()
	rejected := map[uint64]bool{}
	refused, _ := r.read("EDICT_REJECTED")
	for _, m := range refused {
		seq, err := strconv.ParseUint(strings.TrimPrefix(m.Subject(), "edict.rejected."), 10, 64)
		require.NoError(r.t, err)
		rejected[seq] = true
	}
	run = &check.Run{Partition: func(node string) int { return policy.NodeID(node).Partition(planePartitions) }, States: map[string]string{}}
	events, _ := r.read("EDICT_LOG")
	for _, m := range events {
		seq := sequence(r.t, m)
		run.Log = append(run.Log, check.Event{Seq: seq, Body: m.Data(), Rejected: rejected[seq]})
		log = append(log, m.Data())
	}
	r.end()
	learned := maps.Clone(r.keys)
	for _, f := range slices.Concat(r.sse, r.native) {
		maps.Copy(learned, f.Keys)
	}
	run.Announced = r.stored(learned)
	marks, info := r.read("EDICT_NODES", "edict.mark.sync.*", "edict.fence.*")
	for _, m := range marks {
		r.note(run, m)
	}
	first, err := strconv.ParseUint(info.Config.Metadata["edict.first"], 10, 64)
	require.NoError(r.t, err)
	run.First = first
	run.Quiet = []check.Quiet{{Log: run.Log[len(run.Log)-1].Seq, Stream: info.State.LastSeq}}
	r.mu.Lock()
	run.Announced = append(run.Announced, r.heard...)
	for _, m := range r.later {
		f, err := watch.ReadMessage(m, learned)
		require.NoError(r.t, err, "the node stream stored it")
		run.Announced = append(run.Announced, f)
	}
	r.mu.Unlock()
	for _, f := range slices.Concat(r.sse, r.native) {
		run.Watchers = append(run.Watchers, f.Watcher(true))
	}
	for _, h := range r.agents {
		run.Watchers = append(run.Watchers, h.met())
	}
	return run, log
}

func (r *recorder) note(run *check.Run, m jetstream.Msg) {
	kind, number, _ := strings.Cut(strings.TrimPrefix(m.Subject(), "edict."), ".")
	if kind == "mark" {
		if number = strings.TrimPrefix(number, "sync."); strings.HasPrefix(number, "table-") {
			return
		}
	}
	partition, err := strconv.Atoi(number)
	require.NoError(r.t, err, m.Subject())
	if kind == "mark" {
		run.Marks = append(run.Marks, check.Mark{Seq: sequence(r.t, m), Partition: partition})
		return
	}
	var f relay.Fence
	require.NoError(r.t, json.Unmarshal(m.Data(), &f))
	run.Fences = append(run.Fences, check.Fence{Seq: sequence(r.t, m), Partition: partition, Owner: f.Owner, Epoch: f.Epoch, Mode: string(f.Mode)})
}

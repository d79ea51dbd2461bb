package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/plexd"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

// recorder follows nodes of planes that come and go, and hears what is published
// for them, as far as it is connected.
type recorder struct {
	t       *testing.T
	servers string
	nc      *nats.Conn
	keys    watch.Keys
	nodes   []string
	base    func(node int) string
	sse     []*watch.Follower
	native  []*watch.Follower
	agents  []*hand
	wrote   []*producer             // over NATS; what they were answered is judged with the rest
	judged  map[*watch.Follower]int // sessions of runs before this one
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu    sync.Mutex
	heard []watch.Frame
	later []*nats.Msg // of keys that were announced since, to be judged at the end
}

// record starts to follow: base is where a node's stream is now, servers where
// NATS answers.
func record(t *testing.T, servers string, keys watch.Keys, nodes []string, base func(node int) string) *recorder {
	t.Helper()
	nc, err := nats.Connect(servers, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // it comes back
	require.NoError(t, err)
	r := &recorder{t: t, servers: servers, nc: nc, keys: keys, nodes: nodes, base: base, judged: map[*watch.Follower]int{}, cancel: func() {}}
	t.Cleanup(func() { r.end(); nc.Close() })
	sub, err := nc.Subscribe("edict.node.>", func(m *nats.Msg) {
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
	require.NoError(t, nc.Flush())
	client := &http.Client{Transport: &http.Transport{}}
	for _, n := range nodes {
		r.sse = append(r.sse, &watch.Follower{Node: n, Keys: maps.Clone(keys), Client: client})
		r.native = append(r.native, &watch.Follower{Node: n, Keys: maps.Clone(keys), Client: client, NATS: nc})
	}
	r.begin()
	return r
}

// begin has everybody follow, from where he was. Agents begin anew.
func (r *recorder) begin() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel, r.agents = cancel, nil
	// What is owed after a minute takes longer to read than after a moment. Agents of the field wait for 30 s.
	periods := storyPeriods
	periods.Stream = upTo(periods.Stream, 5*time.Second)
	for i, n := range r.nodes {
		sse, native := r.sse[i], r.native[i]
		r.done.Go(func() { sse.Follow(ctx, func() string { return r.base(i) }) })
		r.agents = append(r.agents, hire(r.t, n, func() string { return r.base(i) }, plexd.Options{
			Identity: acquainted(n, r.keys), Terse: true, Periods: periods,
		}))
		r.done.Go(func() {
			for ctx.Err() == nil {
				_ = native.Listen(ctx, func() string { return r.base(i) }, 200*time.Millisecond) // begun again at once
				pauseFor(ctx, 20*time.Millisecond)
			}
		})
	}
}

func (r *recorder) end() {
	r.cancel()
	r.done.Wait()
	for _, h := range r.agents {
		h.end()
	}
}

// log is the plane's, as it is now.
func (r *recorder) log() *streams.Log {
	r.t.Helper()
	var log *streams.Log
	require.True(r.t, waitFor(60*time.Second, func() bool {
		conn, err := streams.Connect(r.t.Context(), streams.ConnectOptions{URL: r.servers})
		if err != nil {
			return false // a server that was cut off answers once it has found the others again
		}
		defer conn.Close()
		log, err = streams.OpenLog(r.t.Context(), conn, streams.LogOptions{})
		return err == nil
	}), "the log is not reached")
	return log
}

// settled waits until everybody has heard of the log's last event, which concerns
// every node.
func (r *recorder) settled(head uint64) {
	r.t.Helper()
	last := policy.NewEventID(r.log().Base(), head, 0)
	for _, f := range slices.Concat(r.sse, r.native) {
		require.True(r.t, waitFor(30*time.Second, func() bool {
			at, _ := f.At()
			return at >= last
		}), "%s does not hear the last word about it", f.Node)
	}
	for _, h := range r.agents {
		require.True(r.t, waitFor(30*time.Second, func() bool {
			_, first, at := h.heard()
			return at >= last || first == 0
		}), "the agent of %s does not hear the last word about it, %d: %v, %+v", h.node, last, h.met(), h.Counters())
	}
}

// read reads a stream whole.
func (r *recorder) read(stream string) (msgs []jetstream.Msg) {
	r.t.Helper()
	js, err := jetstream.New(r.nc)
	require.NoError(r.t, err)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	require.NoError(r.t, err)
	last := s.CachedInfo().State.LastSeq // as the leader says: a replica may lag
	c, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
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
		switch {
		case n > 0:
		case last == 0 || len(msgs) > 0 && sequence(r.t, msgs[len(msgs)-1]) >= last:
			return msgs
		default:
			require.NoError(r.t, ctx.Err(), "%s ends at %d, and %d messages of it came", stream, last, len(msgs))
		}
	}
}

// reported returns once as many rejections are where producers look for them as
// the fold has counted: they are written after the fold, slowly where there are
// many, and again after a fault.
func (r *recorder) reported(n uint64) {
	r.t.Helper()
	js, err := jetstream.New(r.nc)
	require.NoError(r.t, err)
	var has uint64
	more := func() bool {
		had := has
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, "EDICT_REJECTED")
		if err == nil {
			has = s.CachedInfo().State.Msgs
		}
		return has >= n || has > had
	}
	for has < n {
		require.True(r.t, waitFor(30*time.Second, more), "%d of %d rejections are reported, and no more of them", has, n)
	}
}

func sequence(t *testing.T, m jetstream.Msg) uint64 {
	meta, err := m.Metadata()
	require.NoError(t, err)
	return meta.Sequence.Stream
}

// run ends the recording and gathers what was met since the last one, with what
// the log holds, whose bodies are log.
func (r *recorder) run() (run *check.Run, log [][]byte) {
	r.t.Helper()
	rejected := map[uint64]string{}
	for _, m := range r.read("EDICT_REJECTED") {
		seq, err := strconv.ParseUint(strings.TrimPrefix(m.Subject(), "edict.rejected."), 10, 64)
		require.NoError(r.t, err)
		var said struct{ Code string }
		require.NoError(r.t, json.Unmarshal(m.Data(), &said))
		rejected[seq] = said.Code
	}
	run = &check.Run{Base: r.log().Base(), States: map[string]string{}}
	for _, m := range r.read("EDICT_LOG") {
		seq := sequence(r.t, m)
		run.Log = append(run.Log, check.Event{Seq: seq, Subject: m.Subject(), Body: m.Data(), Rejected: rejected[seq]})
		log = append(log, m.Data())
	}
	r.end()
	learned := maps.Clone(r.keys)
	for _, f := range slices.Concat(r.sse, r.native) {
		maps.Copy(learned, f.Keys)
	}
	for _, o := range r.wrote {
		run.Acks = append(run.Acks, o.acks...)
	}
	r.mu.Lock()
	run.Heard, r.heard = r.heard, nil
	for _, m := range r.later {
		f, err := watch.ReadMessage(m, learned)
		require.NoError(r.t, err, "the plane published it")
		run.Heard = append(run.Heard, f)
	}
	r.later = nil
	r.mu.Unlock()
	for _, f := range slices.Concat(r.sse, r.native) {
		w := f.Record()
		met := r.judged[f]
		r.judged[f] = len(w.Sessions)
		w.Sessions, w.Settled = w.Sessions[met:], true
		run.Records = append(run.Records, w)
	}
	for _, h := range r.agents {
		run.Records = append(run.Records, h.met())
	}
	r.keys = learned
	return run, log
}

// judge ends the recording once everybody has heard of everything, and holds it
// against the log, the facts that were acknowledged, and the workers' stores.
func (r *recorder) judge(facts *oracle.Plane, workers []*process, lost func(log [][]byte) []string) *check.Run {
	t := r.t
	t.Helper()
	for _, p := range workers {
		p.announced()
	}
	r.settled(workers[0].status("").Head)
	r.reported(workers[0].status("").Rejected)
	for _, h := range r.agents {
		h.settles(facts)
	}
	run, log := r.run()
	run.Digests = map[string]string{}
	for i, p := range workers {
		for _, n := range r.nodes {
			run.States[n], _ = p.state(n)
			want, _ := facts.State(n)
			require.Equal(t, want, run.States[n], "what was acknowledged stands")
		}
		var code int
		require.True(t, waitFor(time.Minute, func() bool {
			const unavailable = 7 // servers that have just come back elect a leader first
			_, code = p.run("replay", "--verify")
			return code != unavailable
		}))
		require.Zero(t, code, "the store equals a replay")
		run.Digests[fmt.Sprint("worker ", i+1)] = p.status("?digest=true").Digest
	}
	require.Empty(t, lost(log), "acknowledged, and not in the log")
	broken, err := check.Judge(run)
	require.NoError(t, err)
	require.Empty(t, broken, "seed %d", *crashSeed)
	return run
}

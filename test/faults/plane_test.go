package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/edictdev/edict/test/check"
	"github.com/edictdev/edict/test/gen"
	"github.com/edictdev/edict/test/watch"
)

const (
	project    = "00000000-0000-4000-8000-000000000000"
	partitions = 4
	patience   = 20 * time.Second
)

// plane is a real server with a log, and a listener that hears everything the
// node stream stores.
type plane struct {
	t      testing.TB
	server *streams.Server
	conn   *streams.Conn
	log    *streams.Log
	nodes  *streams.Nodes
	signer *artifact.Signer
	keys   watch.Keys
	nc     *nats.Conn
	sub    *nats.Subscription // to what is republished
	heard  int64              // of it, and recorded
	scribe *gen.Scribe

	followers []*follower // by one goroutine

	mu  sync.Mutex
	run check.Run
}

func newPlane(t testing.TB, seed uint64) *plane {
	t.Helper()
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	p := &plane{t: t, server: server, scribe: gen.NewScribe(project, seed)}
	p.conn = p.connect("")
	p.log, err = streams.OpenLog(t.Context(), p.conn, streams.LogOptions{Partitions: partitions})
	require.NoError(t, err)
	p.nodes, _, err = streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()})
	require.NoError(t, err)
	p.signer, err = artifact.GenerateSigner()
	require.NoError(t, err)
	p.keys = watch.Keys{p.signer.KeyID(): p.signer.PublicKey()}
	p.run = check.Run{
		First: p.nodes.First(), Whole: true, States: map[string]string{}, Digests: map[string]string{},
		Partition: func(node string) int { return policy.NodeID(node).Partition(partitions) },
	}
	p.listen()
	return p
}

// connect makes a worker's connection: in process, or over TCP to url.
func (p *plane) connect(url string) *streams.Conn {
	p.t.Helper()
	opt := streams.ConnectOptions{Server: p.server}
	if url != "" {
		opt = streams.ConnectOptions{URL: url}
	}
	conn, err := streams.Connect(p.t.Context(), opt)
	require.NoError(p.t, err)
	p.t.Cleanup(conn.Close)
	return conn
}

// listen records all announcements as the server republishes them, and fences
// and marks as far as they are seen.
func (p *plane) listen() {
	nc, err := nats.Connect(p.server.ClientURL())
	require.NoError(p.t, err)
	p.nc = nc
	p.t.Cleanup(nc.Close)
	sub, err := nc.Subscribe("edict.live.node.>", func(m *nats.Msg) {
		f, err := watch.ReadMessage(m, p.keys)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard++
		if err != nil {
			p.t.Errorf("the node stream stored %v", err)
			return
		}
		p.run.Announced = append(p.run.Announced, f)
	})
	require.NoError(p.t, err)
	require.NoError(p.t, sub.SetPendingLimits(-1, -1))
	require.NoError(p.t, nc.Flush())
	p.sub = sub
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	p.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for msgs, err := range p.nodes.Follow(ctx, 0) {
			if err != nil {
				return
			}
			p.mu.Lock()
			for _, m := range msgs {
				p.note(m)
			}
			p.mu.Unlock()
		}
	}()
}

// note records what is not for nodes.
func (p *plane) note(m streams.Message) {
	for id := range partitions {
		switch m.Subject {
		case streams.FenceSubject(id):
			f, err := relay.ParseFence(m.Body)
			if err != nil {
				p.t.Errorf("fence at %d: %v", m.Seq, err)
				continue
			}
			at := check.Position{Seq: f.After.Seq, Policy: f.After.Policy, Node: string(f.After.Node), End: f.After.IsEnd()}
			p.run.Fences = append(p.run.Fences, check.Fence{Seq: m.Seq, Partition: id, Owner: f.Owner, Epoch: f.Epoch, Mode: string(f.Mode), After: at})
		case streams.SyncMarkSubject(id):
			p.run.Marks = append(p.run.Marks, check.Mark{Seq: m.Seq, Partition: id})
		}
	}
}

// publish appends the next steps to the log, as a producer does, and returns
// the last sequence.
func (p *plane) publish(steps ...gen.Step) (seq uint64) {
	p.t.Helper()
	for _, s := range steps {
		e := p.scribe.Write(s)
		m := &nats.Msg{Subject: e.Subject, Data: e.Body, Header: nats.Header{"Nats-Msg-Id": {e.ID}}}
		answer, err := p.nc.RequestMsg(m, patience)
		require.NoError(p.t, err)
		var ack struct{ Seq uint64 }
		require.NoError(p.t, json.Unmarshal(answer.Data, &ack))
		require.NotZero(p.t, ack.Seq, "%s", answer.Data)
		p.mu.Lock()
		p.run.Log = append(p.run.Log, check.Event{Seq: ack.Seq, Body: e.Body})
		p.mu.Unlock()
		seq = ack.Seq
	}
	return seq
}

// lastStored is the newest announcement for a node, as far as heard.
func (p *plane) lastStored(node string) (seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.run.Announced {
		if f.Node == node {
			seq = max(seq, f.Seq)
		}
	}
	return seq
}

// worker is one process: a projector, a relay and the API.
type worker struct {
	p     *plane
	store *projector.Projector
	relay *relay.Relay
	http  *httptest.Server
	fold  *tap
	stop  func()
}

// start starts a worker on a store directory, over a connection of its own.
func (p *plane) start(dir string, conn *streams.Conn, opt relay.Options) *worker {
	p.t.Helper()
	log, err := streams.OpenLog(p.t.Context(), conn, streams.LogOptions{})
	require.NoError(p.t, err)
	return p.fold(dir, &tap{Log: log}, conn, opt)
}

// fold starts a worker that folds a log, perhaps another server's, and
// announces it here.
func (p *plane) fold(dir string, log *tap, conn *streams.Conn, opt relay.Options) *worker {
	p.t.Helper()
	store, err := projector.Open(dir, projector.Options{Partitions: partitions, Created: log.Created(), First: log.First(), Relaxed: true})
	require.NoError(p.t, err)
	opt.Partitions, opt.Replier = partitions, conn
	w := &worker{p: p, store: store, fold: log}
	w.relay = relay.New(relay.FromProjector(store), relay.NodeStream(conn, streams.NodesOptions{LogID: log.ID()}), artifact.NewKeyring(p.signer), log.Created(), opt)
	w.http = httptest.NewServer(api.New(api.Deps{Log: log, Model: store, Relay: w.relay, ReadPatience: 200 * time.Millisecond}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- store.Run(ctx, w.fold) }()
	go func() { done <- w.relay.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(p.t, <-done)
		require.NoError(p.t, <-done)
		w.http.CloseClientConnections()
		w.http.Close()
		require.NoError(p.t, store.Close())
	})
	p.t.Cleanup(w.stop)
	return w
}

// tap is a log whose flow to the fold can be shut.
type tap struct {
	*streams.Log
	mu   sync.Mutex
	shut chan struct{} // nil: open
	cut  func() int    // messages of the next batch; nil: as they come
}

func (l *tap) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = make(chan struct{})
}

func (l *tap) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.shut)
	l.shut = nil
}

// Follow yields batches while the tap is open.
func (l *tap) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for msgs, err := range l.Log.Follow(ctx, from) {
			l.mu.Lock()
			shut := l.shut
			l.mu.Unlock()
			if shut != nil {
				select {
				case <-shut:
				case <-ctx.Done():
					return
				}
			}
			for l.cut != nil && len(msgs) > 0 {
				n := min(len(msgs), l.cut())
				if !yield(msgs[:n], nil) {
					return
				}
				msgs = msgs[n:]
			}
			if (l.cut == nil || err != nil) && !yield(msgs, err) {
				return
			}
		}
	}
}

// eventually waits for what must come.
func (p *plane) eventually(what string, ok func() bool) {
	p.t.Helper()
	require.True(p.t, within(patience, ok), "%s", what)
}

func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// last is the node stream's last sequence.
func (p *plane) last() uint64 {
	state, err := p.nodes.State(p.t.Context())
	require.NoError(p.t, err)
	return state.Last
}

// told reports whether the worker has folded the log up to seq, announced, or
// seen announced, all of it, and released it to its nodes.
func (w *worker) told(seq uint64) bool {
	if w.store.Applied() < seq {
		return false
	}
	all, err := w.relay.Partitions()
	if err != nil {
		return false
	}
	for _, s := range all {
		if s.Owner == "" || s.Mode != relay.Follow || s.Edges > 0 {
			return false
		}
	}
	at, err := w.relay.Position()
	return err == nil && at >= w.p.last()
}

// finish records states and digest of a worker that has folded everything.
func (w *worker) finish(name string, nodes []string) {
	for _, n := range nodes {
		body, _, err := watch.State(http.DefaultClient, w.http.URL, n)
		if err == nil {
			w.p.run.States[n] = strings.TrimSpace(body)
		}
	}
	refused, err := w.store.Rejections(0, 10)
	require.NoError(w.p.t, err)
	require.Empty(w.p.t, refused, "a history is accepted")
	d, err := w.store.Digest(w.p.t.Context())
	require.NoError(w.p.t, err)
	w.p.run.Digests[name] = fmt.Sprintf("%d:%x", d.Seq, d.Sum)
}

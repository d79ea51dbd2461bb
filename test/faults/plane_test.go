package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

const (
	project    = "00000000-0000-4000-8000-000000000000"
	partitions = 4
	patience   = 20 * time.Second
)

// plane is a real server with a log, and a listener that hears everything that
// is published for nodes.
type plane struct {
	t      testing.TB
	server *streams.Server
	conn   *streams.Conn
	log    *streams.Log
	ring   *artifact.Keyring
	keys   watch.Keys
	nc     *nats.Conn
	scribe *gen.Scribe

	followers []*follower // by one goroutine

	mu    sync.Mutex
	run   check.Run
	truth *oracle.History
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
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	p.ring = artifact.NewKeyring(signer)
	p.keys = watch.Keys{signer.KeyID(): signer.PublicKey()}
	p.run = check.Run{Base: p.log.Base(), States: map[string]string{}, Digests: map[string]string{}}
	p.truth = oracle.NewHistory(p.log.Base())
	p.nc, err = nats.Connect(p.server.ClientURL())
	require.NoError(t, err)
	t.Cleanup(p.nc.Close)
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

// listen records everything that is published for nodes.
func (p *plane) listen() {
	sub, err := p.nc.Subscribe("edict.node.>", func(m *nats.Msg) {
		f, err := watch.ReadMessage(m, p.keys)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			p.t.Errorf("it was published: %v", err)
			return
		}
		p.run.Heard = append(p.run.Heard, f)
	})
	require.NoError(p.t, err)
	require.NoError(p.t, sub.SetPendingLimits(-1, -1))
	require.NoError(p.t, p.nc.Flush())
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
		p.run.Log = append(p.run.Log, check.Event{Seq: ack.Seq, Subject: e.Subject, Body: e.Body})
		require.NoError(p.t, p.truth.Apply(ack.Seq, e.Body))
		p.mu.Unlock()
		seq = ack.Seq
	}
	return seq
}

// hasHeard reports whether a client was told, of everything, the last that the log says
// about its node. Its highest id does not show that: an answer may tell a thing under a
// higher id than the log's last change has, and be cut off before it.
func (p *plane) hasHeard(f *follower) bool {
	p.mu.Lock()
	last := map[oracle.Thing]policy.EventID{}
	for _, x := range p.truth.Changes(f.Node) {
		last[x.Thing] = x.ID
	}
	p.mu.Unlock()
	for i, s := range f.Record().Sessions {
		if s.Over == "pull" || i == 0 { // what it begins after it was told before
			maps.DeleteFunc(last, func(_ oracle.Thing, id policy.EventID) bool { return id <= s.After })
		}
		for _, m := range s.Frames {
			if about := check.Thing(m); last[about] <= m.ID {
				delete(last, about)
			}
		}
	}
	return len(last) == 0
}

// share is what a worker publishes, always.
type share []int

func owns(ids ...int) *share { s := share(ids); return &s }

// Mine implements relay.Share.
func (s *share) Mine() ([]int, <-chan struct{}) { return *s, nil }

// casting is who a worker is.
type casting struct {
	url   string     // of the server; empty: in this process
	share *share     // nil: all
	past  int        // bytes of the kept past; 0: the default
	cut   func() int // events of the next batch; nil: as they come
	marks func(int) (uint64, bool)
	hub   int // bytes that its hub may hold; 0: the default
}

// worker is one process: a projector, a relay and the API.
type worker struct {
	p        *plane
	store    *projector.Projector
	progress *relay.Progress
	share    *share
	http     *httptest.Server
	stop     func()
}

// start starts a worker on a store directory, over a connection of its own.
func (p *plane) start(dir string, as casting) *worker {
	p.t.Helper()
	conn := p.connect(as.url)
	log, err := streams.OpenLog(p.t.Context(), conn, streams.LogOptions{})
	require.NoError(p.t, err)
	store, err := projector.Open(dir, projector.Options{
		Partitions: partitions, Created: log.Created(), First: log.First(), Base: log.Base(), PastBytes: as.past,
	})
	require.NoError(p.t, err)
	if as.share == nil {
		as.share = owns(0, 1, 2, 3)
	}
	w := &worker{p: p, store: store, share: as.share, progress: &relay.Progress{}}
	deliver := relay.New(store, p.ring, log.Created(), relay.Options{
		Partitions: partitions, Head: log.Head, HubBytes: as.hub, Progress: w.progress,
		Publish: relay.PublishOptions{Wire: conn, Listeners: streams.NewListeners(conn), Share: as.share, Marks: as.marks},
	})
	w.http = httptest.NewServer(api.New(api.Deps{Log: log, Model: store, Relay: deliver, LimitDeps: api.LimitDeps{ReadPatience: 200 * time.Millisecond}}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- store.Run(ctx, &tap{log, as.cut}) }()
	go func() { done <- deliver.Run(ctx) }()
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

// tap is a log whose batches may be cut smaller.
type tap struct {
	*streams.Log
	cut func() int
}

// Follow yields batches.
func (l *tap) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for msgs, err := range l.Log.Follow(ctx, from) {
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

// announced reports whether the worker has folded the log up to seq and published
// what is its own to publish.
func (w *worker) announced(seq uint64) bool {
	if w.store.Applied() < seq {
		return false
	}
	ids, _ := w.share.Mine()
	marks := w.progress.Published()
	for _, id := range ids {
		if marks[id] < seq {
			return false
		}
	}
	return true
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

// verdict judges what was recorded.
func (p *plane) verdict() []check.Violation {
	p.t.Helper()
	require.NoError(p.t, p.nc.Flush())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.followers {
		rec := f.Record()
		rec.Settled = !f.partial
		p.run.Records = append(p.run.Records, rec)
	}
	broken, err := check.Judge(&p.run)
	require.NoError(p.t, err)
	return broken
}

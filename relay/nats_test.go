package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// A server leaves a store open of a stream that several make or delete at one
// moment, as they do here on purpose: what is left is the server's and idle.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server."
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(server+"(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(server+"(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// plane is a log, a node stream and processes, on a real server.
type plane struct {
	t      testing.TB
	server *streams.Server
	conn   *streams.Conn
	log    *streams.Log
	signer *artifact.Signer
	heads  map[uuid.UUID]uuid.UUID
}

func newPlane(t testing.TB) *plane {
	t.Helper()
	return newPlaneOf(t, streams.ServerOptions{Listen: "127.0.0.1:0", Relaxed: true}, 4)
}

func newPlaneOf(t testing.TB, opt streams.ServerOptions, partitions int) *plane {
	t.Helper()
	opt.Dir = t.TempDir()
	server, err := streams.StartServer(opt)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{Partitions: partitions})
	require.NoError(t, err)
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	return &plane{t: t, server: server, conn: conn, log: log, signer: signer, heads: map[uuid.UUID]uuid.UUID{}}
}

func (p *plane) publish(e policy.Event) uint64 {
	p.t.Helper()
	seq, _, err := p.log.Publish(p.t.Context(), streams.Append{Event: e})
	require.NoError(p.t, err)
	return seq
}

func (p *plane) node(id, labels string) uint64 {
	p.t.Helper()
	key, value, _ := strings.Cut(labels, "=")
	l, err := policy.NewLabels(map[string]string{key: value}, "")
	require.NoError(p.t, err)
	return p.publish(policy.NodeUpdated{ID: uuid.New(), Project: project, Node: policy.NodeID(id), Labels: l})
}

func (p *plane) revise(id uuid.UUID, selector string, ports ...uint16) uint64 {
	p.t.Helper()
	expr, errs := policy.ParseExpr(selector)
	require.Empty(p.t, errs)
	none, _ := policy.ParseExpr("role=nobody")
	rev := policy.Revision{
		ID: uuid.New(), Parent: p.heads[id], Selector: policy.Selector{Source: expr, Destination: none},
		CreatedAt: time.Unix(1, 0).UTC(), CreatedBy: "test",
	}
	for _, port := range ports {
		rev.Rules = append(rev.Rules, policy.Rule{
			Action: policy.Allow, Protocol: policy.TCP,
			Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.1.0.0/16"),
			Ports: policy.Ports{From: port, To: port},
		})
	}
	p.heads[id] = rev.ID
	return p.publish(policy.RevisionCreated{ID: uuid.New(), Project: project, Policy: id, Slug: "p" + id.String()[:8], DisplayName: "P", Revision: rev})
}

// worker is one process: a projector, a relay and an HTTP server.
type worker struct {
	*relay.Relay
	store *projector.Projector
	http  *httptest.Server
	stop  func()
}

func (p *plane) start(dir string, opt relay.Options) *worker {
	p.t.Helper()
	store, err := projector.Open(dir, projector.Options{Partitions: p.log.Partitions(), Created: p.log.Created(), First: p.log.First(), Relaxed: p.conn.Durability() == streams.Relaxed})
	require.NoError(p.t, err)
	opt.Partitions, opt.Replier = p.log.Partitions(), p.conn
	r := relay.New(relay.FromProjector(store), relay.NodeStream(p.conn, streams.NodesOptions{LogID: p.log.ID()}), artifact.NewKeyring(p.signer), p.log.Created(), opt)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 2)
	go func() { done <- store.Run(ctx, p.log) }()
	go func() { done <- r.Run(ctx) }()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := r.ServeEvents(w, req, policy.NodeID(req.URL.Path[1:])); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	server.Config.ConnContext = relay.WithConn
	server.Start()
	var once sync.Once
	w := &worker{Relay: r, store: store, http: server, stop: func() {
		once.Do(func() {
			cancel()
			require.NoError(p.t, <-done)
			require.NoError(p.t, <-done)
			server.CloseClientConnections()
			server.Close()
			require.NoError(p.t, store.Close())
		})
	}}
	p.t.Cleanup(w.stop)
	return w
}

// client follows one node over HTTP.
type client struct {
	mu     sync.Mutex
	ids    []uint64
	events []string // policy_updated: "<policy>=<number of rules>", node_state_updated: "pull", artifact_updated: artifactTold
	close  func()
	ended  chan struct{}
}

func (p *plane) follow(w *worker, node, last string) *client {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+"/"+node, nil)
	require.NoError(p.t, err)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := w.http.Client().Do(req)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode)
	c := &client{ended: make(chan struct{})}
	trust := artifact.NewTrustSet()
	require.NoError(p.t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	go func() {
		defer close(c.ended)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		var id uint64
		var data []string
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "id":
				id, _ = strconv.ParseUint(value, 10, 64)
			case name == "data":
				data = append(data, value)
			case name == "" && len(data) > 0:
				c.got(id, trust, strings.Join(data, "\n"))
				data = nil
			}
		}
	}()
	c.close = func() { cancel(); <-c.ended }
	p.t.Cleanup(c.close)
	return c
}

func (c *client) got(id uint64, trust *artifact.TrustSet, doc string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := "pull"
	n, err := trust.Check([]byte(doc), time.Now())
	if err != nil {
		what = err.Error()
	} else if n.Type == "policy_updated" {
		p, err := artifact.ParsePolicyPayload(n.Payload)
		var rules []any
		if err == nil {
			err = json.Unmarshal(p.Rules, &rules)
		}
		what = fmt.Sprintf("%s=%d", p.PolicyID.String()[:2], len(rules))
		if err != nil {
			what = err.Error()
		}
	} else if n.Type == "artifact_updated" {
		var x relay.ArtifactUpdated
		if err := json.Unmarshal(n.Payload, &x); err != nil || x.Document == nil {
			what = fmt.Sprint("no document: ", err)
		} else {
			what = fmt.Sprintf("%s.%s of %s v%d: %s", x.Kind, x.Name, x.NodeID, x.Version, *x.Document)
		}
	}
	c.ids = append(c.ids, id)
	c.events = append(c.events, what)
}

func (c *client) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

func (c *client) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.FormatUint(c.ids[len(c.ids)-1], 10)
}

func (p *plane) eventually(f func() bool, what string) {
	p.t.Helper()
	require.Eventually(p.t, f, 30*time.Second, 2*time.Millisecond, what)
}

func (p *plane) ready(w *worker) {
	p.t.Helper()
	p.eventually(func() bool { return w.Ready() == nil }, "ready")
}

// told is what the node stream says last: node and policy → fingerprint.
func (p *plane) told(n *streams.Nodes) map[string]compiler.Fingerprint {
	p.t.Helper()
	st, err := n.State(p.t.Context())
	require.NoError(p.t, err)
	out := map[string]compiler.Fingerprint{}
	for msgs, err := range n.Read(p.t.Context(), n.First(), st.Last, "edict.node.>") {
		require.NoError(p.t, err)
		for _, m := range msgs {
			var e artifact.Envelope
			require.NoError(p.t, json.Unmarshal(m.Body, &e))
			payload, err := artifact.ParsePolicyPayload(e.Payload)
			require.NoError(p.t, err)
			if !bytes.Equal(payload.Rules, []byte("[]")) {
				out[e.Node+"/"+e.Name] = payload.Fingerprint
			}
		}
	}
	return out
}

// rows are the same from the read model.
func (w *worker) rows() map[string]compiler.Fingerprint {
	out := map[string]compiler.Fingerprint{}
	w.store.Read(func(v *projector.View) {
		nodes, _ := v.Nodes(project, nil, "", 10000)
		for _, n := range nodes {
			rows, _ := v.Rows(n.ID)
			for _, r := range rows.Rows {
				out[string(n.ID)+"/"+r.Policy.String()] = r.Fingerprint
			}
		}
	})
	return out
}

func (p *plane) converged(w *worker) {
	p.t.Helper()
	n, _, err := streams.OpenNodes(p.t.Context(), p.conn, streams.NodesOptions{})
	require.NoError(p.t, err)
	p.eventually(func() bool { return maps.Equal(p.told(n), w.rows()) }, "the stream says what the rows say")
	end, err := n.State(p.t.Context())
	require.NoError(p.t, err)
	p.eventually(func() bool { at, _ := w.Position(); return at >= end.Last }, "and all of it is released")
}

func policyID(n byte) uuid.UUID { return uuid.UUID{n, 6: 0x40, 8: 0x80, 15: 1} }

func TestNodesAreToldOverARealServer(t *testing.T) {
	p := newPlane(t)
	for i := range 20 {
		p.node(fmt.Sprintf("n%d", i), fmt.Sprintf("role=r%d", i%3))
	}
	p.revise(policyID(1), "role=r0", 443)
	dir := t.TempDir()
	w := p.start(dir, relay.Options{})
	p.ready(w)
	p.converged(w)

	c := p.follow(w, "n0", "")
	p.revise(policyID(2), "role=r0", 80, 81)
	p.eventually(func() bool { return slices.Equal(c.seen(), []string{"02=2"}) }, "live")
	p.node("n0", "role=r1")
	p.eventually(func() bool { return len(c.seen()) == 3 }, "two rows are gone")
	require.ElementsMatch(t, []string{"02=2", "01=0", "02=0"}, c.seen())
	last := c.last()
	c.close()

	p.revise(policyID(3), "role=r1", 22)
	p.revise(policyID(4), "role=r2", 22)
	p.converged(w)
	c = p.follow(w, "n0", last)
	p.eventually(func() bool { return slices.Equal(c.seen(), []string{"03=1"}) }, "resumed")
	zero := p.follow(w, "n0", "0")
	p.eventually(func() bool { return len(zero.seen()) == 4 }, "everything retained")
	require.Equal(t, "pull", zero.seen()[0])

	w.stop()
	<-c.ended
	p.revise(policyID(3), "role=r1", 22, 23)
	w = p.start(dir, relay.Options{})
	p.ready(w)
	p.converged(w)
	all, err := w.Partitions()
	require.NoError(t, err)
	for _, s := range all {
		require.Equal(t, uint64(2), s.Epoch)
		require.Equal(t, relay.Follow, s.Mode)
		require.Equal(t, w.Owner(), s.Owner)
	}
	c = p.follow(w, "n0", c.last())
	p.eventually(func() bool { return slices.Equal(c.seen(), []string{"03=2"}) }, "resumed on a new process, which followed")
}

func TestAStreamRemadeUnderARunningRelayIsFilledAgain(t *testing.T) {
	p := newPlane(t)
	for i := range 8 {
		p.node(fmt.Sprintf("n%d", i), "role=a")
	}
	p.revise(policyID(1), "role=a", 443)
	w := p.start(t.TempDir(), relay.Options{})
	p.ready(w)
	p.converged(w)
	c := p.follow(w, "n1", "")
	_, made, err := streams.RemakeNodes(t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()}, 0)
	require.NoError(t, err)
	require.True(t, made)
	select {
	case <-c.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the live stream goes on")
	}
	p.converged(w)
	p.ready(w)
	c = p.follow(w, "n1", "1")
	p.eventually(func() bool { return slices.Equal(c.seen(), []string{"pull", "01=1"}) }, "everything and one word to pull")
}

func TestAnotherProcessTakesOverWhatOneLeaves(t *testing.T) {
	p := newPlane(t)
	for i := range 12 {
		p.node(fmt.Sprintf("n%d", i), "role=a")
	}
	p.revise(policyID(1), "role=a", 443)
	a := p.start(t.TempDir(), relay.Options{Contested: 50 * time.Millisecond})
	p.ready(a)
	b := p.start(t.TempDir(), relay.Options{Contested: 50 * time.Millisecond})
	p.ready(b)
	c := p.follow(b, "n3", "")
	for i := range 10 { // both want all partitions: they take them from each other
		p.revise(policyID(1), "role=a", uint16(1000+i))
	}
	p.converged(a)
	a.stop()
	last := p.revise(policyID(1), "role=a", 1, 2, 3)
	require.NoError(t, b.store.Wait(t.Context(), last))
	p.converged(b)
	p.eventually(func() bool { s := c.seen(); return len(s) > 0 && s[len(s)-1] == "01=3" }, "the last word")
	c.mu.Lock()
	defer c.mu.Unlock()
	require.True(t, slices.IsSorted(c.ids))
	require.Len(t, slices.Compact(slices.Clone(c.ids)), len(c.ids))
}

package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

const soon = 20 * time.Second

// plane is a log on a real server, and the processes of a plane on it.
type plane struct {
	t         testing.TB
	server    *streams.Server
	conn      *streams.Conn
	log       *streams.Log
	signer    *artifact.Signer
	keys      *artifact.Keyring // of its workers; nil: signer alone
	trust     *artifact.TrustSet
	heads     map[uuid.UUID]uuid.UUID
	pastBytes int // of the stores of its workers; 0: as in the product
}

const planeParts = 4

func newPlane(t testing.TB) *plane {
	t.Helper()
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	p := newPlaneOn(t, streams.ConnectOptions{Server: server})
	p.server = server
	return p
}

// newPlaneOn is newPlane on a server that is there.
func newPlaneOn(t testing.TB, opt streams.ConnectOptions) *plane {
	t.Helper()
	p := &plane{t: t, heads: map[uuid.UUID]uuid.UUID{}, trust: artifact.NewTrustSet()}
	p.conn = p.connect(opt)
	var err error
	p.log, err = streams.OpenLog(t.Context(), p.conn, streams.LogOptions{Partitions: planeParts})
	require.NoError(t, err)
	p.signer, err = artifact.GenerateSigner()
	require.NoError(t, err)
	require.NoError(t, p.trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	return p
}

func (p *plane) connect(opt streams.ConnectOptions) *streams.Conn {
	p.t.Helper()
	c, err := streams.Connect(p.t.Context(), opt)
	require.NoError(p.t, err)
	p.t.Cleanup(c.Close)
	return c
}

func (p *plane) within() context.Context {
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	p.t.Cleanup(cancel)
	return ctx
}

func (p *plane) publish(e policy.Event) uint64 {
	p.t.Helper()
	seq, _, err := p.log.Publish(p.within(), streams.Append{Event: e})
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

// revise gives a policy these ports for nodes that the selector matches.
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
	return p.publish(policy.RevisionCreated{ID: uuid.New(), Project: project, Policy: id, Slug: "p" + id.String(), DisplayName: "P", Revision: rev})
}

// share is what a worker publishes; it may change.
type share struct {
	mu      sync.Mutex
	ids     []int
	changed chan struct{}
}

func all() *share  { return &share{ids: []int{0, 1, 2, 3}, changed: make(chan struct{})} }
func none() *share { return &share{changed: make(chan struct{})} }

func (s *share) Mine() ([]int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids, s.changed
}

func (s *share) set(ids ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = ids
	close(s.changed)
	s.changed = make(chan struct{})
}

// worker is one process: a fold and a relay.
type worker struct {
	*relay.Relay
	*relay.Progress
	t     testing.TB
	store *projector.Projector
	count *counted
	stop  func()
}

// counted counts what was published.
type counted struct {
	relay.Metrics
	mu                 sync.Mutex
	published, skipped int
	beyond             atomic.Int64
}

func (c *counted) Published(messages, skipped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published += messages
	c.skipped += skipped
}
func (c *counted) Resumed(string)          {}
func (c *counted) Clients(int)             {}
func (c *counted) HubDropped(int)          {}
func (c *counted) Beyond()                 { c.beyond.Add(1) }
func (c *counted) Delivered(time.Duration) {}

func (c *counted) both() (published, skipped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.published, c.skipped
}

// fedStore says when its batches are first handed to somebody.
type fedStore struct {
	*projector.Projector
	once sync.Once
	fed  chan struct{}
}

func (s *fedStore) Feed(f projector.Feed) (seq uint64, at time.Time) {
	defer s.once.Do(func() { close(s.fed) })
	return s.Projector.Feed(f)
}

// start runs a worker on a store of its own in dir. It publishes all that is folded from now
// on.
func (p *plane) start(dir string, opt relay.Options) *worker {
	p.t.Helper()
	store, err := projector.Open(dir, projector.Options{Partitions: planeParts, Created: p.log.Created(), First: p.log.First(), Base: p.log.Base(), PastBytes: p.pastBytes})
	require.NoError(p.t, err)
	w := &worker{t: p.t, store: store, count: &counted{}}
	opt.Partitions, opt.Head, opt.Metrics = planeParts, p.log.Head, w.count
	if opt.Publish.Wire == nil {
		opt.Publish.Wire = p.connect(streams.ConnectOptions{Server: p.server})
	}
	if opt.Publish.Listeners == nil {
		opt.Publish.Listeners = streams.NewListeners(opt.Publish.Wire.(*streams.Conn))
	}
	w.Progress = &relay.Progress{}
	opt.Progress = w.Progress
	fed := &fedStore{Projector: store, fed: make(chan struct{})}
	if p.keys == nil {
		p.keys = artifact.NewKeyring(p.signer)
	}
	w.Relay = relay.New(fed, p.keys, p.log.Created(), opt)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 2)
	go func() { done <- w.Run(ctx) }()
	<-fed.fed // what is folded before is not published here
	go func() { done <- store.Run(ctx, p.log) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(p.t, <-done)
		require.NoError(p.t, <-done)
		require.NoError(p.t, store.Close())
	})
	p.t.Cleanup(w.stop)
	return w
}

// at waits until the worker has published everything up to seq. Where tables are watched,
// that does not pass the sequence up to which the watch says that it looked.
func (w *worker) at(seq uint64) {
	w.t.Helper()
	reached := func() bool {
		marks := w.Published()
		for _, told := range marks {
			if told < seq {
				return false
			}
		}
		return len(marks) > 0
	}
	if !assert.Eventually(w.t, reached, soon, time.Millisecond) {
		require.Failf(w.t, "not everything is published", "up to %d: %v", seq, w.Published())
	}
}

// ear listens as a program of anybody would.
type ear struct {
	p   *plane
	nc  *nats.Conn
	sub *nats.Subscription
}

func (p *plane) listen(subject string) *ear {
	p.t.Helper()
	nc, err := nats.Connect(p.server.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	require.NoError(p.t, err)
	p.t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync(subject)
	require.NoError(p.t, err)
	require.NoError(p.t, nc.FlushTimeout(soon))
	return &ear{p, nc, sub}
}

// renewal is a message for a node, verified.
type renewal struct {
	node     string
	id, prev policy.EventID
	kind     string // Edict-Type
	what     string // rules by their ports, a reason
	header   nats.Header
	subject  string
}

func (h renewal) String() string { return fmt.Sprintf("%s %s %s", h.node, h.kind, h.what) }

func (e *ear) next() renewal {
	e.p.t.Helper()
	m, err := e.sub.NextMsgWithContext(e.p.within())
	require.NoError(e.p.t, err)
	return e.p.read(m)
}

// read verifies a message and what its headers say.
func (p *plane) read(m *nats.Msg) (h renewal) {
	p.t.Helper()
	e, err := p.trust.Open(m.Data)
	require.NoError(p.t, err, "%s %q", m.Subject, m.Data)
	get := func(name string) string {
		require.Len(p.t, m.Header[name], 1, name)
		return m.Header[name][0]
	}
	h.id, err = policy.ParseEventID(get("Edict-Event-Id"))
	require.NoError(p.t, err)
	h.prev, err = policy.ParseEventID(get("Edict-Prev"))
	require.NoError(p.t, err)
	id := e.Node + "." + h.id.String()
	for _, name := range []string{"Nats-Msg-Id", "Edict-Id", "ce-id"} {
		require.Equal(p.t, id, get(name))
	}
	seq, ok := h.id.Seq(p.log.Base())
	require.True(p.t, ok)
	require.Equal(p.t, fmt.Sprint(seq), get("Edict-Log-Seq"))
	require.Equal(p.t, seq, e.Version)
	require.Equal(p.t, p.log.ID(), get("Edict-Log"))
	require.Equal(p.t, "1.0", get("ce-specversion"))
	require.Equal(p.t, "edict", get("ce-source"))
	require.Equal(p.t, e.GeneratedAt.UTC().Format(time.RFC3339Nano), get("ce-time"))
	h.node, h.kind, h.header, h.subject = e.Node, get("Edict-Type"), m.Header, m.Subject
	require.Equal(p.t, h.kind, get("ce-type"))
	name := e.Name
	switch h.kind {
	case "policy_updated":
		row, err := artifact.ParsePolicyPayload(e.Payload)
		require.NoError(p.t, err)
		require.NoError(p.t, row.Verify())
		h.what = portsOf(p.t, row.Rules)
	case "node_state_updated":
		s, err := artifact.ParseStatePayload(e.Payload)
		require.NoError(p.t, err)
		h.what, name = s.Reason, "state"
	}
	if !strings.HasPrefix(m.Subject, "_INBOX.") {
		require.Equal(p.t, "edict.node."+h.node+"."+name, m.Subject)
	}
	return h
}

func portsOf(t testing.TB, rules []byte) string {
	var list []struct{ Ports struct{ From int } }
	require.NoError(t, json.Unmarshal(rules, &list))
	var ports []string
	for _, r := range list {
		ports = append(ports, fmt.Sprint(r.Ports.From))
	}
	return "[" + strings.Join(ports, " ") + "]"
}

// replay asks what a node missed.
func (p *plane) replay(node string, after policy.EventID) (msgs []renewal, end nats.Header) {
	p.t.Helper()
	e := p.listen(nats.NewInbox())
	m := e.ask(node, after)
	for len(m.Data) > 0 {
		msgs = append(msgs, p.read(m))
		var err error
		m, err = e.sub.NextMsgWithContext(p.within())
		require.NoError(p.t, err)
	}
	return msgs, m.Header
}

// ask asks what a node missed, and again while no worker serves yet. It returns the
// first message of the answer.
func (e *ear) ask(node string, after policy.EventID) *nats.Msg {
	e.p.t.Helper()
	for {
		require.NoError(e.p.t, e.nc.PublishRequest("edict.replay.node."+node, e.sub.Subject, fmt.Appendf(nil, `{"after":"%s"}`, after)))
		m, err := e.sub.NextMsgWithContext(e.p.within())
		if !errors.Is(err, nats.ErrNoResponders) {
			require.NoError(e.p.t, err)
			return m
		}
	}
}

func (p *plane) policyID(n byte) uuid.UUID { return uuid.UUID{15: n, 6: 0x40, 8: 0x80} }

// end is the id at the end of an event.
func (p *plane) end(seq uint64) policy.EventID { return policy.EndOf(p.log.Base(), seq) }

func TestWhoeverSubscribesHearsTheNextChange(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	p.node("n1", "role=web")
	p.node("n2", "role=web")
	seq := p.revise(p.policyID(1), "role=web", 80)
	w.at(seq)
	published, skipped := w.count.both()
	require.Zero(t, published, "nobody listens")

	e := p.listen("edict.node.n1.>")
	first := p.revise(p.policyID(2), "role=web", 443)
	got := e.next()
	assert.Equal(t, "n1 policy_updated [443]", got.String())
	assert.Equal(t, policy.NewEventID(p.log.Base(), first, 1), got.id)
	assert.Equal(t, policy.NewEventID(p.log.Base(), seq, 0), got.prev, "what was told to nobody has an id all the same")
	second := p.revise(p.policyID(2), "role=db", 443)
	gone := e.next()
	assert.Equal(t, "n1 policy_updated []", gone.String())
	assert.Equal(t, policy.NewEventID(p.log.Base(), second, 1), gone.id)
	assert.Equal(t, got.id, gone.prev)
	w.at(second)
	published, now := w.count.both()
	assert.Equal(t, 2, published)
	assert.Greater(t, now, skipped, "n2 has nobody who listens")
	require.NoError(t, e.sub.Unsubscribe())
}

func TestEachNodesMessagesRiseAndNameTheOneBefore(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	e := p.listen("edict.node.>")
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	const nodes, rounds = 60, 5
	var seq uint64
	for i := range nodes {
		seq = p.node(fmt.Sprintf("n%d", i), fmt.Sprintf("role=r%d", i%2))
	}
	w.at(seq) // the publisher knows that somebody listens: each event is told
	for r := range uint16(rounds) {
		p.revise(p.policyID(1), "role in (r0,r1)", 100+r)
		seq = p.revise(p.policyID(2), "role=r0", 200+r)
	}
	w.at(seq)
	last := map[string]policy.EventID{}
	held := map[string]map[string]string{}
	for range nodes*rounds + nodes/2*rounds {
		h := e.next()
		require.Greater(t, h.id, last[h.node])
		require.Equal(t, last[h.node], h.prev)
		last[h.node] = h.id
		if held[h.node] == nil {
			held[h.node] = map[string]string{}
		}
		held[h.node][h.subject] = h.what
	}
	for i := range nodes {
		id := fmt.Sprintf("n%d", i)
		want := map[string]string{"edict.node." + id + "." + p.policyID(1).String(): fmt.Sprintf("[%d]", 100+rounds-1)}
		if i%2 == 0 {
			want["edict.node."+id+"."+p.policyID(2).String()] = fmt.Sprintf("[%d]", 200+rounds-1)
		}
		require.Equal(t, want, held[id])
	}
}

func TestTwoPublishersOfAPartitionStoreEachMessageOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, _, err := streams.CreateNodeStream(p.within(), p.conn)
	require.NoError(t, err)
	a := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	b := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	const nodes = 50
	for i := range nodes {
		p.node(fmt.Sprintf("n%d", i), "role=web")
	}
	var seq uint64
	for port := range uint16(4) {
		seq = p.revise(p.policyID(1), "role=web", 80+port)
	}
	a.at(seq)
	b.at(seq)
	require.Eventually(t, func() bool {
		n, _, err := streams.CreateNodeStream(p.within(), p.conn)
		return err == nil && n.Messages == uint64(nodes) && n.Last >= 4*nodes
	}, soon, time.Millisecond)
	n, _, err := streams.CreateNodeStream(p.within(), p.conn)
	require.NoError(t, err)
	assert.EqualValues(t, 4*nodes, n.Last, "each once, and two said each")
	x, _ := a.count.both()
	y, _ := b.count.both()
	assert.Equal(t, 2*4*nodes, x+y)
}

func TestAPartitionIsTakenOverAtTheMarkWithoutLossOrWaiting(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	e := p.listen("edict.node.>")
	mine, yours := all(), none()
	a := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: mine}})
	b := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: yours, Marks: func(id int) (uint64, bool) {
		seq, ok := a.Published()[id]
		return seq, ok
	}}})
	for i := range 8 {
		p.node(fmt.Sprintf("n%d", i), "role=web")
	}
	a.at(p.revise(p.policyID(1), "role=web", 80))
	a.stop() // its marks stay as they are
	p.revise(p.policyID(1), "role=web", 81)
	seq := p.revise(p.policyID(2), "role=web", 22)
	require.NoError(t, b.store.Wait(p.within(), seq))
	yours.set(0, 1, 2, 3)
	last := map[string]policy.EventID{}
	var told []string
	for range 3 * 8 {
		h := e.next()
		require.Greater(t, h.id, last[h.node], "none is said twice")
		require.LessOrEqual(t, h.prev, last[h.node], "no hole is seen where there is none")
		last[h.node] = h.id
		told = append(told, h.what)
	}
	slices.Sort(told)
	assert.Equal(t, []string{"[22]", "[80]", "[81]"}, slices.Compact(told))
	b.at(seq)
	p.node("n1", "role=none")
	for range 2 {
		h := e.next()
		require.Equal(t, last["n1"], h.prev)
		last["n1"] = h.id
	}
}

func TestWhoTakesOverBeyondWhatIsKeptHasItsListenersPull(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.pastBytes = 1
	p.node("n1", "role=web")
	p.revise(p.policyID(1), "role=web", 80)
	mark := p.revise(p.policyID(2), "role=web", 81)
	p.revise(p.policyID(1), "role=db", 80) // n1 lost it, and nobody knows
	seq := p.revise(p.policyID(2), "role=web", 82)
	e := p.listen("edict.node.n1.>")
	yours := none()
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: yours, Marks: func(int) (uint64, bool) { return mark, true }}})
	require.NoError(t, w.store.Wait(p.within(), seq))
	yours.set(0, 1, 2, 3)
	word, row := e.next(), e.next()
	assert.Equal(t, "n1 node_state_updated resync", word.String())
	assert.Equal(t, "n1 policy_updated [82]", row.String())
	assert.Greater(t, row.id, word.id)
	assert.Equal(t, word.id, row.prev)
}

func TestAfterARestartNothingIsPublishedAgain(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	dir := t.TempDir()
	w := p.start(dir, relay.Options{Publish: relay.PublishOptions{Share: all()}})
	p.node("n1", "role=web")
	w.at(p.revise(p.policyID(1), "role=web", 80))
	marks := w.Published()
	w.stop()
	e := p.listen("edict.node.>")
	for name, f := range map[string]func(int) (uint64, bool){
		"marks are known":  func(id int) (uint64, bool) { seq, ok := marks[id]; return seq, ok },
		"nothing is known": func(int) (uint64, bool) { return 0, false },
	} {
		t.Run(name, func(t *testing.T) {
			w := p.start(dir, relay.Options{Publish: relay.PublishOptions{Share: all(), Marks: f}})
			defer w.stop()
			require.Eventually(t, func() bool { return len(w.Published()) == planeParts }, soon, time.Millisecond)
			w.at(p.revise(p.policyID(2), "role=nowhere", uint16(len(name))))
			published, _ := w.count.both()
			assert.Zero(t, published)
			marks = w.Published()
		})
	}
	require.NoError(t, e.sub.Unsubscribe())
}

func TestAReaderHealsAHoleByAsking(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	e := p.listen("edict.node.n1.>")
	p.node("n1", "role=web")
	p.revise(p.policyID(1), "role=web", 80)
	p.revise(p.policyID(2), "role=web", 81)
	seq := p.revise(p.policyID(3), "role=web", 82)
	first, lost, third := e.next(), e.next(), e.next()
	require.Equal(t, lost.id, third.prev, "who did not hear of it sees that here")
	w.at(seq)
	msgs, end := p.replay("n1", first.id)
	require.Len(t, msgs, 2)
	assert.Equal(t, []string{"n1 policy_updated [81]", "n1 policy_updated [82]"}, []string{msgs[0].String(), msgs[1].String()})
	assert.Equal(t, []policy.EventID{lost.id, third.id}, []policy.EventID{msgs[0].id, msgs[1].id})
	assert.Equal(t, first.id, msgs[0].prev)
	assert.Equal(t, []string{p.end(seq).String()}, end["Edict-Up-To"])
	assert.Empty(t, end["Edict-Resync"])

	msgs, end = p.replay("n1", 7) // of a log before
	require.Len(t, msgs, 3)
	assert.Equal(t, []string{"true"}, end["Edict-Resync"])
	assert.Zero(t, w.count.beyond.Load())
	msgs, end = p.replay("n1", p.end(seq+100)) // beyond the end
	assert.EqualValues(t, 1, w.count.beyond.Load(), "and that is noted")
	require.Len(t, msgs, 3)
	assert.Equal(t, []string{"true"}, end["Edict-Resync"])
	msgs, end = p.replay("n1", p.end(seq))
	assert.Empty(t, msgs)
	assert.Empty(t, end["Edict-Resync"])
}

// rotating is a wire that has the plane's key replaced once more while a node hears of the
// one before.
type rotating struct {
	*streams.Conn
	rotate func()
}

func (r rotating) Serve(ctx context.Context, subject string, serving func(), answer func(string, []byte, func(map[string][]string, []byte) error)) error {
	return r.Conn.Serve(ctx, subject, serving, func(subject string, body []byte, reply func(map[string][]string, []byte) error) {
		answer(subject, body, func(header map[string][]string, body []byte) error {
			if header["Edict-Event"] != nil {
				r.rotate()
			}
			return reply(header, body)
		})
	})
}

// An answer is signed by the key that it announces, though there may be another one
// before it ends. That one is announced in the next.
func TestAnAnswerIsSignedByTheKeyThatItAnnounces(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	var signers []*artifact.Signer
	for range 2 {
		s, err := artifact.GenerateSigner()
		require.NoError(t, err)
		signers = append(signers, s)
	}
	until := time.Now().Add(time.Hour)
	p.keys = artifact.NewKeyring(p.signer)
	p.keys.Set(artifact.Keys{Current: signers[0], Previous: p.signer, Until: until})
	c := p.connect(streams.ConnectOptions{Server: p.server})
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{
		Share: all(), Listeners: streams.NewListeners(c),
		Wire: rotating{c, func() { p.keys.Set(artifact.Keys{Current: signers[1], Previous: signers[0], Until: until}) }},
	}})
	p.node("n1", "role=web")
	w.at(p.revise(p.policyID(1), "role=web", 80))
	e := p.listen(nats.NewInbox())
	m := e.ask("n1", 0)
	require.Equal(t, "signing_key_rotated", m.Header.Get("Edict-Event"))
	require.Equal(t, signers[1], p.keys.Current())
	m, err := e.sub.NextMsgWithContext(p.within())
	require.NoError(t, err)
	require.NoError(t, p.trust.Add(artifact.PlanePolicy, signers[0].KeyID(), signers[0].PublicKey(), time.Time{}))
	_, err = p.trust.Open(m.Data)
	require.NoError(t, err)
}

func TestAReplayThatHasNoAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.start(t.TempDir(), relay.Options{})
	p.node("n1", "role=web")
	msgs, end := p.replay("nobody", 0)
	assert.Empty(t, msgs)
	assert.Equal(t, nats.Header{"Edict-Error": {"node_not_found"}}, end)
	_, end = p.replay("No", 0)
	assert.Contains(t, end["Edict-Error"][0], "No")
	_, end = p.replay("n1", 0)
	assert.NotContains(t, end, "Edict-Error")
}

func TestAWorkerThatIsNotSureOfItsLogAnswersNoReplay(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]relay.Options{
		"it lost the connection": {Confirmed: func() bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			p.start(t.TempDir(), opt)
			p.node("n1", "role=web")
			_, end := p.replay("n1", 0)
			assert.Equal(t, nats.Header{"Edict-Error": {"behind"}}, end)
		})
	}
}

func TestAMessageOfSomebodyElseOnANodesSubjectDoesNothing(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, _, err := streams.CreateNodeStream(p.within(), p.conn)
	require.NoError(t, err)
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	p.node("n1", "role=web")
	e := p.listen("edict.node.n1.>")
	p.revise(p.policyID(1), "role=web", 80)
	first := e.next()
	subject := first.subject
	for _, body := range []string{"", "{}", "garbage", string(make([]byte, 1<<20))} {
		m := nats.NewMsg(subject)
		m.Header["Edict-Event-Id"] = []string{"99999999999999999"}
		m.Data = []byte(body)
		require.NoError(t, e.nc.PublishMsg(m))
		got, err := e.sub.NextMsgWithContext(p.within())
		require.NoError(t, err)
		_, err = p.trust.Open(got.Data)
		require.Error(t, err, "it is not signed")
	}
	seq := p.revise(p.policyID(1), "role=web", 81)
	next := e.next()
	assert.Equal(t, "n1 policy_updated [81]", next.String())
	assert.Equal(t, first.id, next.prev)
	w.at(seq)
	msgs, _ := p.replay("n1", first.id)
	require.Len(t, msgs, 1)
	assert.Equal(t, next.id, msgs[0].id)
}

func TestWhatABacklogDroppedIsToldFromTheReadModel(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	e := p.listen("edict.node.>")
	w := p.start(t.TempDir(), relay.Options{HubBytes: 1, Publish: relay.PublishOptions{Share: all()}})
	for i := range 20 {
		p.node(fmt.Sprintf("n%d", i), "role=web")
	}
	var seq uint64
	for port := range uint16(10) {
		seq = p.revise(p.policyID(1), "role=web", 80+port)
	}
	w.at(seq)
	last := map[string]renewal{}
	for len(last) < 20 || slices.ContainsFunc(mapValues(last), func(h renewal) bool { return h.what != "[89]" }) {
		h := e.next()
		require.Greater(t, h.id, last[h.node].id)
		last[h.node] = h
	}
}

func mapValues(m map[string]renewal) (all []renewal) {
	for _, h := range m {
		all = append(all, h)
	}
	return all
}

// Whatever of it the server that went down had not stored is published again.
func TestAStreamMissesNothingOfAServerThatComesBack(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, _, err := streams.CreateNodeStream(p.within(), p.conn)
	require.NoError(t, err)
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	const nodes = 100
	for i := range nodes {
		p.node(fmt.Sprintf("n%d", i), "role=web")
	}
	seq := p.revise(p.policyID(1), "role=web", 80)
	require.NoError(t, p.server.Restart())
	require.Eventually(t, p.conn.Connected, soon, time.Millisecond)
	seq = max(seq, p.revise(p.policyID(2), "role=web", 81))
	w.at(seq)
	require.Eventually(t, func() bool {
		n, _, err := streams.CreateNodeStream(p.within(), p.conn)
		return err == nil && n.Messages == 2*nodes
	}, soon, time.Millisecond)
}

// elsewhere is a server of these options that no plane embeds.
func elsewhere(t *testing.T, opt *server.Options) *server.Server {
	t.Helper()
	opt.Host, opt.Port, opt.NoSigs, opt.NoLog, opt.JetStream, opt.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, true, t.TempDir()
	ns, err := server.NewServer(opt)
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(soon))
	return ns
}

// A server drops what the stream of somebody cannot store in time, and tells
// nobody: what is published goes no faster.
func TestAStreamThatIsSlowMissesNothing(t *testing.T) {
	t.Parallel()
	cores := runtime.GOMAXPROCS(0) // each publishes, and may be so far ahead
	const ahead = 50
	ns := elsewhere(t, &server.Options{SyncAlways: true, StreamMaxBufferedMsgs: ahead * 5 / 4 * cores})
	at := streams.ConnectOptions{URL: ns.ClientURL()}
	p := newPlaneOn(t, at)
	_, _, err := streams.CreateNodeStream(p.within(), p.conn)
	require.NoError(t, err)
	nodes := 2 * ahead * cores
	labels, err := policy.NewLabels(map[string]string{"role": "web"}, "")
	require.NoError(t, err)
	events := make([]streams.Append, nodes)
	for i := range events {
		events[i] = streams.Append{Bulk: true, Event: policy.NodeUpdated{ID: uuid.New(), Project: project, Node: policy.NodeID(fmt.Sprintf("n%d", i)), Labels: labels}}
	}
	_, err = p.log.PublishAll(t.Context(), events)
	require.NoError(t, err)
	wire := p.connect(at)
	listeners := streams.NewListeners(wire)
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: listeners, Share: all(), Ahead: ahead}})
	require.Eventually(t, func() bool { return listeners.Stored("edict.node.n.x") }, soon, time.Millisecond)
	w.at(p.revise(p.policyID(1), "role=web", 80))
	require.Eventually(t, func() bool {
		n, _, err := streams.CreateNodeStream(p.within(), p.conn)
		return err == nil && n.Messages == uint64(nodes)
	}, soon, 10*time.Millisecond)
}

func TestWhoAskedAnotherServerIsTold(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := p.connect(streams.ConnectOptions{URL: p.server.ClientURL()})
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Share: all()}})
	p.node("n1", "role=web")
	e := p.listen("edict.node.n1.>")
	p.revise(p.policyID(1), "role=web", 80)
	assert.Equal(t, "n1 policy_updated [80]", e.next().String(), "who listened before may have asked before")
	_ = w
}

// watch is a TableWatch of the test.
type watch struct {
	mu       sync.Mutex
	followed map[policy.NodeID]uint64
	due      chan struct{}
	seq      uint64
	all      []policy.NodeID
	asked    []policy.NodeID
	err      error
}

func newWatch() *watch {
	return &watch{followed: map[policy.NodeID]uint64{}, due: make(chan struct{}, 1)}
}

func (w *watch) Follow(node policy.NodeID, _ bool, at uint64) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followed[node] = at
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.followed, node)
	}
}

func (w *watch) Due() <-chan struct{} { return w.due }

func (w *watch) Look(context.Context) (uint64, []policy.NodeID, []policy.NodeID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, asked, err := w.all, w.asked, w.err
	w.all, w.asked, w.err = nil, nil, nil
	return w.seq, all, asked, err
}

func (w *watch) Ordered(policy.NodeID, uint64) (bool, error) { return false, nil }

func (w *watch) Seq() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

func (w *watch) changed(seq uint64, err error, nodes ...policy.NodeID) {
	w.mu.Lock()
	w.seq, w.all, w.err = seq, nodes, err
	w.mu.Unlock()
	select {
	case w.due <- struct{}{}:
	default:
	}
}

func TestAChangeOfATableAloneIsToldToWhoListens(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	tables := newWatch()
	w := p.start(t.TempDir(), relay.Options{Tables: tables, Publish: relay.PublishOptions{Share: all()}})
	p.node("n1", "role=web")
	e := p.listen("edict.node.n1.>")
	seq := p.revise(p.policyID(1), "role=web", 80)
	row := e.next()
	require.Eventually(t, func() bool {
		tables.mu.Lock()
		defer tables.mu.Unlock()
		_, followed := tables.followed["n1"]
		return followed && len(tables.followed) == 1
	}, soon, time.Millisecond)
	require.NoError(t, w.store.Wait(p.within(), seq))
	for part, told := range w.Published() {
		assert.Less(t, told, seq, "partition %d: tables were not looked at", part)
	}
	tables.changed(0, errors.New("not yet"))
	tables.changed(seq, nil, "n1", "n2")
	word := e.next()
	assert.Equal(t, "n1 node_state_updated datapath", word.String())
	assert.Equal(t, p.end(seq), word.id)
	assert.Equal(t, row.id, word.prev)
	w.at(seq)
	p.revise(p.policyID(1), "role=web", 81)
	assert.Equal(t, word.id, e.next().prev)
}

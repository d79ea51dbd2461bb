package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// ears are Listeners as servers elsewhere have them, known when the test says so.
type ears struct {
	relay.Listeners
	mu    sync.Mutex
	nodes map[policy.NodeID]bool
	fresh streams.Fresh
	wake  chan struct{}
	asked atomic.Int64 // how often all were listed
	once  atomic.Pointer[func()]
}

// inRound has f called in the next round of the publisher.
func (l *ears) inRound(f func()) { l.once.Store(&f) }

func newEars(wire *streams.Conn, nodes ...policy.NodeID) *ears {
	l := &ears{Listeners: streams.NewListeners(wire), nodes: map[policy.NodeID]bool{}, wake: make(chan struct{}, 1)}
	for _, n := range nodes {
		l.nodes[n] = true
	}
	return l
}

func (l *ears) None() bool {
	if f := l.once.Swap(nil); f != nil {
		(*f)()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.nodes) == 0
}

func (l *ears) Any(n policy.NodeID, _ string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[n]
}

func (l *ears) Everybody() bool       { return false }
func (l *ears) Stored(string) bool    { return false }
func (l *ears) Changes() uint64       { return 0 }
func (l *ears) Wake() <-chan struct{} { return l.wake }

func (l *ears) Who() (map[policy.NodeID]bool, bool) {
	l.asked.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	who := map[policy.NodeID]bool{}
	for n := range l.nodes {
		who[n] = true
	}
	return who, false
}

func (l *ears) Fresh() streams.Fresh {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fresh
	l.fresh = streams.Fresh{}
	return f
}

// come has a node found to listen. Nobody wakes the publisher for it.
func (l *ears) come(n policy.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[n] = true
	l.fresh.Nodes = append(l.fresh.Nodes, n)
}

// TestAStreamOverSomeNodesStopsNothing: no message to the others is ever stored, whether or not
// somebody is subscribed for them, and none asks to be.
func TestAStreamOverSomeNodesStopsNothing(t *testing.T) {
	t.Parallel()
	ns := elsewhere(t, &server.Options{})
	at := streams.ConnectOptions{URL: ns.ClientURL()}
	p := newPlaneOn(t, at)
	nc, err := nats.Connect(ns.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"edict.node.n1.>"}})
	require.NoError(t, err)
	for _, n := range []string{"n1", "n2", "n3"} {
		p.node(n, "role=web")
	}
	wire := p.connect(at)
	listeners := streams.NewListeners(wire)
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: listeners, Share: all(), Ahead: 1}})
	require.Eventually(t, func() bool { return listeners.Stored("edict.node.n1.x") }, soon, time.Millisecond)
	sub, err := nc.SubscribeSync("edict.node.n3.>")
	require.NoError(t, err)
	require.NoError(t, nc.FlushTimeout(soon))
	w.at(p.revise(p.policyID(1), "role=web", 80))
	m, err := sub.NextMsg(soon)
	require.NoError(t, err)
	require.Empty(t, m.Reply, "a stream would answer, and who is subscribed does not")
}

// TestAMarkAboveTheFoldKeepsNobodyElseWaiting: who had a partition before may have folded more
// than is folded here.
func TestAMarkAboveTheFoldKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := p.connect(streams.ConnectOptions{Server: p.server})
	l := newEars(wire)
	var last uint64
	for i := range 8 {
		id := fmt.Sprintf("n%d", i)
		l.nodes[policy.NodeID(id)] = true
		last = p.node(id, "role=web")
	}
	marks := func(id int) (uint64, bool) { return 1000, id == 0 }
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: all(), Marks: marks}, HubBytes: 1})
	w.at(last)
	w.at(p.revise(p.policyID(1), "role=web", 80))
}

// TestWhoListensIsNotListedForEachRound: that takes long where many do.
func TestWhoListensIsNotListedForEachRound(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := p.connect(streams.ConnectOptions{Server: p.server})
	l := newEars(wire, "n1")
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: all()}})
	w.at(p.node("n1", "role=web"))
	before := l.asked.Load()
	for i := range uint16(10) {
		w.at(p.revise(p.policyID(1), "role=web", 80+i))
	}
	require.Equal(t, before, l.asked.Load())
}

// TestWhatIsPassedOverIsCountedOnce: by the worker that would have published it.
func TestWhatIsPassedOverIsCountedOnce(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	s := none()
	s.ids = []int{0}
	wire := p.connect(streams.ConnectOptions{Server: p.server})
	l := newEars(wire, "x") // so that edges are made
	own := 0
	var last uint64
	for i := range 16 {
		id := policy.NodeID(fmt.Sprintf("n%d", i))
		if id.Partition(planeParts) == 0 {
			own++
		}
		last = p.node(string(id), "role=web")
	}
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: s}})
	w.at(last)
	passed := make(chan uint64, 1)
	l.inRound(func() { // edges are still made, and nobody listens when the next round takes them
		seq := p.revise(p.policyID(1), "role=web", 80)
		require.NoError(t, w.store.Wait(p.within(), seq))
		l.mu.Lock()
		delete(l.nodes, "x")
		l.mu.Unlock()
		passed <- seq
	})
	l.wake <- struct{}{}
	w.at(<-passed)
	_, skipped := w.count.both()
	require.Equal(t, own, skipped)
}

// TestWhoIsFoundLateIsToldWhatWasPassedOver: also where the same round has more to publish,
// and where edges were not made, because nobody was known to listen.
func TestWhoIsFoundLateIsToldWhatWasPassedOver(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]policy.NodeID{"others listen": {"n2"}, "nobody else listens": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			wire := p.connect(streams.ConnectOptions{Server: p.server})
			l := newEars(wire, others...)
			w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: all()}})
			p.node("n1", "role=web")
			p.node("n2", "role=db")
			e := p.listen("edict.node.n1.>")
			w.at(p.revise(p.policyID(1), "role=web", 80)) // passed over
			l.come("n1")
			w.at(p.revise(p.policyID(2), "role in (web,db)", 81))
			first, second := e.next(), e.next()
			require.Equal(t, "n1 policy_updated [80]", first.String())
			require.Equal(t, "n1 policy_updated [81]", second.String())
			require.Equal(t, first.id, second.prev)
			w.at(p.revise(p.policyID(2), "role in (web,db)", 82))
			require.Equal(t, second.id, e.next().prev, "nothing is told twice")
		})
	}
}

// flaky fails what is published on a subject while it is told to.
type flaky struct {
	relay.Wire
	subject atomic.Pointer[string]
	failed  chan struct{} // of capacity 1
}

func newFlaky(wire relay.Wire) *flaky { return &flaky{Wire: wire, failed: make(chan struct{}, 1)} }

func (f *flaky) Tell(subject string, h map[string][]string, b []byte) error {
	if s := f.subject.Load(); s != nil && strings.HasPrefix(subject, *s) {
		select {
		case f.failed <- struct{}{}:
		default:
		}
		return errors.New("not connected")
	}
	return f.Wire.Tell(subject, h, b)
}

// fail has everything fail whose subject begins so; "": nothing.
func (f *flaky) fail(subject string) {
	if subject == "" {
		f.subject.Store(nil)
		return
	}
	f.subject.Store(&subject)
}

// TestWhoIsFoundInARoundThatFailsIsToldWhatWasPassedOver: when it succeeds.
func TestWhoIsFoundInARoundThatFailsIsToldWhatWasPassedOver(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	conn := p.connect(streams.ConnectOptions{Server: p.server})
	wire, l := newFlaky(conn), newEars(conn, "n2")
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: all()}})
	p.node("n1", "role=web")
	p.node("n2", "role=db")
	e := p.listen("edict.node.n1.>")
	w.at(p.revise(p.policyID(1), "role=web", 80)) // passed over
	wire.fail("edict.node.n1.")
	l.come("n1")
	seq := p.revise(p.policyID(2), "role=db", 81)
	<-wire.failed
	wire.fail("")
	require.Equal(t, "n1 policy_updated [80]", e.next().String())
	w.at(seq)
}

// TestWhoIsFoundWhereAPartitionIsBehindIsToldEverythingOnceAndInOrder: what was passed over
// before, and what its owner before had not published.
func TestWhoIsFoundWhereAPartitionIsBehindIsToldEverythingOnceAndInOrder(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := p.connect(streams.ConnectOptions{Server: p.server})
	l := newEars(wire, "n2")
	dir := t.TempDir()
	mark := p.node("n1", "role=web")
	var seq uint64
	for i := range byte(3) {
		seq = p.revise(p.policyID(i), "role=web", 80+uint16(i))
	}
	w := p.start(dir, relay.Options{Publish: relay.PublishOptions{Share: none()}})
	require.NoError(t, w.store.Wait(p.within(), seq))
	w.stop()
	share := none()
	w = p.start(dir, relay.Options{Publish: relay.PublishOptions{
		Wire: wire, Listeners: l, Share: share, Marks: func(int) (uint64, bool) { return mark, true },
	}})
	e := p.listen("edict.node.n1.>")
	require.NoError(t, w.store.Wait(p.within(), p.revise(p.policyID(3), "role=web", 83))) // where another worker published
	l.come("n1")
	share.set(0, 1, 2, 3)
	var prev policy.EventID
	for i := range 4 {
		m := e.next()
		require.Equal(t, fmt.Sprintf("n1 policy_updated [%d]", 80+i), m.String())
		require.Equal(t, prev, m.prev)
		prev = m.id
	}
	w.at(p.revise(p.policyID(9), "role=web", 90))
	require.Equal(t, prev, e.next().prev)
}

// late is a share that says nothing until it is closed.
type late struct {
	*share
	known chan struct{}
}

func (l late) Mine() ([]int, <-chan struct{}) {
	<-l.known
	return l.share.Mine()
}

// TestWhoIsFoundIsToldWhatTheFirstRoundPassedOver: that counts from where the publisher began.
func TestWhoIsFoundIsToldWhatTheFirstRoundPassedOver(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	wire := p.connect(streams.ConnectOptions{Server: p.server})
	l, s := newEars(wire, "n2"), late{all(), make(chan struct{})}
	w := p.start(t.TempDir(), relay.Options{Publish: relay.PublishOptions{Wire: wire, Listeners: l, Share: s}})
	e := p.listen("edict.node.n1.>")
	p.node("n1", "role=web")
	seq := p.revise(p.policyID(1), "role=web", 80)
	require.NoError(t, w.store.Wait(p.within(), seq))
	close(s.known)
	w.at(seq)
	l.come("n1")
	w.at(p.revise(p.policyID(2), "role=db", 81))
	require.Equal(t, "n1 policy_updated [80]", e.next().String())
}

package relay

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// wireLog keeps the subjects that were published.
type wireLog struct {
	mu       sync.Mutex
	subjects []string
}

func (w *wireLog) Tell(subject string, _ map[string][]string, _ []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subjects = append(w.subjects, subject)
	return nil
}

func (w *wireLog) TellStream(_ context.Context, subject string, h map[string][]string, body []byte) error {
	return w.Tell(subject, h, body)
}

func (w *wireLog) Flush(context.Context, uint64) error { return nil }
func (w *wireLog) Reconnects() uint64                  { return 0 }
func (w *wireLog) MaxPayload() int                     { return 1 << 20 }

func (w *wireLog) Serve(ctx context.Context, _ string, serving func(), _ func(string, []byte, func(map[string][]string, []byte) error)) error {
	serving()
	<-ctx.Done()
	return nil
}

// lateWire serves requests once it is told to.
type lateWire struct {
	wireLog
	serve  chan struct{}
	serves atomic.Bool
}

func (w *lateWire) Serve(ctx context.Context, subject string, serving func(), f func(string, []byte, func(map[string][]string, []byte) error)) error {
	<-w.serve
	w.serves.Store(true)
	return w.wireLog.Serve(ctx, subject, serving, f)
}

// overhearing says whether requests were served when it began to overhear them.
type overhearing struct {
	everybody
	wire  *lateWire
	began chan bool
}

func (o overhearing) Run(ctx context.Context) error {
	o.began <- o.wire.serves.Load()
	<-ctx.Done()
	return nil
}

// A subscription that only overhears makes the server tell nobody that no worker
// serves yet: who asked then would wait for an answer that never comes.
func TestRequestsAreOverheardOnceTheyAreServed(t *testing.T) {
	w := &lateWire{serve: make(chan struct{})}
	l := overhearing{wire: w, began: make(chan bool, 1)}
	g := newStage(t, newScript(t), Options{Partitions: 4, Publish: PublishOptions{Wire: w, Listeners: l, Share: Partitions{1}}})
	require.Eventually(t, g.relay.publisher.wanted, 20*time.Second, time.Millisecond)
	close(w.serve)
	require.True(t, <-l.began)
}

// nodeOf is a node of a partition of four.
func nodeOf(partition int) policy.NodeID {
	for i := 0; ; i++ {
		if id := policy.NodeID(fmt.Sprintf("n%d", i)); id.Partition(4) == partition {
			return id
		}
	}
}

// TestWhatAnotherWorkerPublishesIsNotPrepared: of two workers, each makes the
// messages of its own nodes and nothing for the other's.
func TestWhatAnotherWorkerPublishesIsNotPrepared(t *testing.T) {
	const own, other = 1, 2
	log := newScript(t)
	out := &wireLog{}
	g := newStage(t, log, Options{Partitions: 4, Publish: PublishOptions{Wire: out, Share: Partitions{own}}})
	require.Eventually(t, g.relay.publisher.wanted, 20*time.Second, time.Millisecond)
	for _, part := range []int{own, other} {
		log.node(string(nodeOf(part)), fmt.Sprintf("part=p%d", part))
	}
	var want []string
	const policies = 5
	for n := range policies {
		log.revise(2*n, "part=p1", 100+n)
		log.revise(2*n+1, "part=p2", 200+n)
		want = append(want, wire.NodeSubject(nodeOf(own), log.id('p', 2*n).String()))
	}
	log.revise(2*policies, "part", 300)
	want = append(want, wire.NodeSubject(nodeOf(own), log.id('p', 2*policies).String()))
	g.play()
	require.Eventually(t, func() bool { return g.relay.publisher.published()[own] == uint64(len(log.msgs)) }, 20*time.Second, time.Millisecond)
	out.mu.Lock()
	require.Equal(t, want, out.subjects)
	out.mu.Unlock()
	e := g.relay.envelopes
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Len(t, e.rules, policies+1, "canonical rules of what is published here")
}

// TestNodesThatComeAndGoLeaveNothing: a publisher keeps nothing for good of a node that was
// removed.
func TestNodesThatComeAndGoLeaveNothing(t *testing.T) {
	const own, came = 1, 1000
	log := newScript(t)
	log.revise(1, "role=web", 80)
	g := newStage(t, log, Options{Partitions: 4, Publish: PublishOptions{Wire: &wireLog{}, Share: Partitions{own}}})
	require.Eventually(t, g.relay.publisher.wanted, 20*time.Second, time.Millisecond)
	for i, gone := 0, 0; gone < came; i++ {
		id := policy.NodeID(fmt.Sprintf("n%d", i))
		if id.Partition(4) != own {
			continue
		}
		log.node(string(id), "role=web")
		log.removeNode(string(id))
		if gone++; gone%10 == 0 {
			g.play()
			require.Eventually(t, func() bool { return g.relay.publisher.published()[own] == uint64(len(log.msgs)) }, 20*time.Second, time.Millisecond)
		}
	}
	g.stop()
	<-g.ended
	kept := g.relay.publisher.parts[own].prev
	require.Less(t, len(kept), came/2)
}

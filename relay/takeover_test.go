package relay_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// newCluster is a plane on several servers that keep everything as often.
func newCluster(t *testing.T, servers int) *plane {
	t.Helper()
	if servers == 1 {
		return newPlaneOf(t, streams.ServerOptions{Listen: "127.0.0.1:0", Relaxed: true}, 16)
	}
	all, err := streams.StartCluster(t.Context(), servers, t.TempDir(), streams.ServerOptions{Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range all {
			s.Close()
		}
	})
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{URL: streams.ClusterURL(all), Replicas: servers})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{Partitions: 16})
	require.NoError(t, err)
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	return &plane{t: t, conn: conn, log: log, signer: signer, heads: map[uuid.UUID]uuid.UUID{}}
}

// sleeper is a process that can be stopped in the middle of what it does:
// between signing a batch and sending it.
type sleeper struct {
	*worker
	workers *relay.Workers

	mu    sync.Mutex
	awake chan struct{} // closed while it is
	slept int           // batches that were about to be sent
}

func (s *sleeper) sleep() (wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awake = make(chan struct{})
	return sync.OnceFunc(func() { close(s.awake) })
}

// pass waits while the process sleeps, however long its contexts are over.
func (s *sleeper) pass(batch bool) {
	s.mu.Lock()
	awake := s.awake
	select {
	case <-awake:
	default:
		if batch {
			s.slept++
		}
	}
	s.mu.Unlock()
	<-awake
}

type sleepyStream struct {
	relay.Stream
	s *sleeper
}

func (x sleepyStream) PublishBatch(ctx context.Context, msgs []streams.Outgoing) (uint64, error) {
	x.s.pass(true)
	return x.Stream.PublishBatch(ctx, msgs)
}

type sleepyLeases struct {
	*streams.Bucket
	s *sleeper
}

func (x sleepyLeases) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	x.s.pass(false)
	return x.Bucket.Update(ctx, key, value, revision, ttl)
}

func (p *plane) share(ttl time.Duration) *sleeper {
	p.t.Helper()
	s := &sleeper{awake: make(chan struct{})}
	close(s.awake)
	open := relay.NodeStream(p.conn, streams.NodesOptions{LogID: p.log.ID()})
	owner := relay.NewOwner()
	s.workers = relay.NewWorkers(relay.WorkersOptions{
		Owner: owner, Partitions: p.log.Partitions(), TTL: ttl,
		Open: func(ctx context.Context) (relay.Leases, error) {
			b, err := streams.OpenBucket(ctx, p.conn, streams.BucketOptions{Name: "EDICT_WORKERS", MarkerTTL: time.Minute})
			return sleepyLeases{b, s}, err
		},
		Self: func() relay.Worker { return relay.Worker{ID: owner, Shares: s.Ready() == nil} },
	})
	store, err := projector.Open(p.t.TempDir(), projector.Options{Partitions: p.log.Partitions(), Created: p.log.Created(), First: p.log.First(), Relaxed: true})
	require.NoError(p.t, err)
	r := relay.New(relay.FromProjector(store), func(ctx context.Context, above uint64) (relay.Stream, error) {
		n, err := open(ctx, above)
		return sleepyStream{n, s}, err
	}, artifact.NewKeyring(p.signer), p.log.Created(), relay.Options{Partitions: p.log.Partitions(), Owner: owner, Share: s.workers})
	s.worker = &worker{Relay: r, store: store}
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 3)
	go func() { done <- store.Run(ctx, p.log) }()
	go func() { done <- r.Run(ctx) }()
	go func() { done <- s.workers.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		for range cap(done) {
			require.NoError(p.t, <-done)
		}
		require.NoError(p.t, store.Close())
	})
	return s
}

// owned counts the partitions whose fence names s, as w sees them.
func (w *worker) owned(t testing.TB, s *sleeper) (n int) {
	all, err := w.Partitions()
	require.NoError(t, err)
	for _, x := range all {
		if x.Owner == s.Owner() && x.Mode == relay.Follow {
			n++
		}
	}
	return n
}

// audit reads the node stream as it grows: epochs never fall and have one owner
// each, and no subject gets a version that it had or that is older.
type audit struct {
	mu     sync.Mutex
	last   uint64
	faults []string
}

func (p *plane) audit(n *streams.Nodes) *audit {
	x := &audit{}
	fences, versions := map[string]relay.Fence{}, map[string]uint64{}
	look := func(m streams.Message) {
		if strings.HasPrefix(m.Subject, "edict.fence.") {
			f, err := relay.ParseFence(m.Body)
			was := fences[m.Subject]
			if err != nil || f.Epoch < was.Epoch || f.Epoch == was.Epoch && f.Owner != was.Owner || was.Mode == relay.Follow && f.After.Compare(was.After) < 0 {
				x.faults = append(x.faults, fmt.Sprintf("%s at %d: %+v after %+v", m.Subject, m.Seq, f, was))
			}
			fences[m.Subject] = f
		} else if strings.HasPrefix(m.Subject, "edict.node.") {
			v, _ := strconv.ParseUint(m.Get(streams.HeaderEdictLogSeq), 10, 64)
			if v <= versions[m.Subject] {
				x.faults = append(x.faults, fmt.Sprintf("%s at %d: version %d after %d", m.Subject, m.Seq, v, versions[m.Subject]))
			}
			versions[m.Subject] = v
		}
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for msgs := range n.Follow(ctx, 0) {
			x.mu.Lock()
			for _, m := range msgs {
				look(m)
				x.last = m.Seq
			}
			x.mu.Unlock()
		}
	}()
	p.t.Cleanup(func() { cancel(); <-done })
	return x
}

func (p *plane) sound(x *audit, n *streams.Nodes) {
	p.t.Helper()
	end, err := n.State(p.t.Context())
	require.NoError(p.t, err)
	p.eventually(func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.last >= end.Last
	}, "the audit has read everything")
	x.mu.Lock()
	defer x.mu.Unlock()
	require.Empty(p.t, x.faults)
}

// An owner that stops between signing a batch and sending it, and goes on when
// its lease is over and others announce its partitions, gets nothing in. A fence
// that only one server checks would hold in the first case and not in the second.
func TestAnOwnerThatWakesUpLateAnnouncesNothing(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("on %d", servers), func(t *testing.T) {
			t.Parallel()
			p := newCluster(t, servers)
			const ttl, nodes = 2 * time.Second, 60
			for i := range nodes {
				p.node(fmt.Sprintf("n%d", i), "role=a")
			}
			p.revise(policyID(1), "role=a", 443)
			a, b := p.share(ttl), p.share(ttl)
			p.eventually(func() bool { return b.Ready() == nil && b.owned(t, a) == 8 && b.owned(t, b) == 8 }, "both announce half")
			p.converged(b.worker)
			n, _, err := streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{})
			require.NoError(t, err)
			x := p.audit(n)

			wake := a.sleep()
			for port := range uint16(20) {
				p.revise(policyID(1), "role=a", 1000+port)
			}
			p.eventually(func() bool { return b.owned(t, b) == 16 }, "one announces everything")
			p.revise(policyID(1), "role=a", 2000)
			p.converged(b.worker)
			a.mu.Lock()
			require.NotZero(t, a.slept, "a batch was about to be sent")
			a.mu.Unlock()
			wake()
			for port := range uint16(20) {
				p.revise(policyID(1), "role=a", 3000+port)
			}
			p.eventually(func() bool { return b.owned(t, a) == 8 && b.owned(t, b) == 8 }, "both announce half again")
			p.converged(b.worker)
			p.converged(a.worker)
			p.sound(x, n)
		})
	}
}

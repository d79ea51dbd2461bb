package relay

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
)

// The tests of this file are the counterexamples that the model of the
// announcement protocol found (F1 to F10), replayed step by step on the code.

func (w *world) revise(policy, sel, rules int) {
	w.log.append(event{kind: revise, policy: policy, sel: sel, rules: rules})
}

func (w *world) label(node, label int) {
	w.log.append(event{kind: setLabel, node: node, label: label})
}

// nodesOf are the nodes of a partition.
func (w *world) nodesOf(partition int) (nodes []int) {
	for n, id := range nodeIDs {
		if id.Partition(worldParts) == partition {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (w *world) clean(t *testing.T) {
	t.Helper()
	require.Empty(t, w.violations())
}

// rest lets everything end well and holds the world to its promises.
func (w *world) rest(t *testing.T, survivor int) {
	t.Helper()
	w.settle(w.workers[survivor])
	w.clean(t)
}

// follows brings partition p of k to rest in follow.
func (k *worker) follows(t *testing.T, p int) {
	t.Helper()
	for range 50 {
		if x := k.a.parts[p]; !k.advance(p) && x.phase == owned && !x.need && x.sync == nil {
			return
		}
	}
	t.Fatal("the partition does not come to rest")
}

func (k *worker) fold(n int) {
	for range n {
		k.store.fold()
	}
}

// bubble runs f where time stands still unless something waits for it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestTwoOwnersOfOneEpochNeverBothBelieve(t *testing.T) { // F1
	for name, accident := range map[string]fate{
		"the second claim is refused": deliver, "its acknowledgement is lost": loseAll, "it lands later": delay,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3, 0)
			a, b := w.workers[0], w.workers[2]
			w.label(w.nodesOf(0)[0], 0)
			w.revise(0, 7, 1)
			w.revise(0, 7, 2)
			a.store.foldAll()
			b.fold(2)
			a.advance(0) // both read: no fence
			b.advance(0)
			a.advance(0)
			require.Equal(t, owned, a.a.parts[0].phase)
			w.server.fate = func([]streams.Outgoing) fate { return accident }
			b.advance(0)
			w.server.fate = nil
			require.NotEqual(t, owned, b.a.parts[0].phase, "the fence it read again is another owner's")
			a.follows(t, 0)
			w.server.land(0)
			b.store.foldAll()
			b.follows(t, 0) // it may take the partition, but only at a further epoch, and behind what is told
			w.clean(t)
			w.rest(t, 2)
		})
	}
}

func TestAPositionWithinASequenceDoesNotFollowWhenItsEdgesAreGone(t *testing.T) { // F2
	w := newWorld(2, 0)
	a := w.workers[0]
	n := w.nodesOf(0)[0]
	w.revise(0, 1, 1)
	w.revise(1, 1, 1)
	w.label(n, 0) // seq 3: edges (3,p0) and (3,p1)
	a.fold(2)
	a.follows(t, 0)
	a.fold(1)
	a.limit = 2 // a fence and one announcement
	a.advance(0)
	require.Equal(t, uint64(3), a.a.parts[0].fence.After.Seq)
	require.False(t, a.a.parts[0].fence.After.IsEnd())
	a.dropEdges(0, 3)
	a.crash()
	a.limit = 0
	a.advance(0)
	a.advance(0)
	a.advance(0)
	require.NotNil(t, a.a.parts[0].sync, "the rest of sequence 3 can only be found by a sync")
	a.follows(t, 0)
	w.checkConverged()
	w.clean(t)
	w.rest(t, 0)
}

func TestEdgesDroppedBecauseOfAFenceAreMissedAfterTheStreamIsRemade(t *testing.T) { // F3
	w := newWorld(2, 0)
	a, b := w.workers[0], w.workers[1]
	n := w.nodesOf(0)[0]
	w.label(n, 0)
	w.revise(0, 1, 1)
	w.revise(1, 1, 1)
	a.store.foldAll()
	b.fold(1)
	a.follows(t, 0)
	for range 10 {
		a.pump(9) // a sees its fence pass and drops edges up to 3
	}
	a.pump(9)
	require.Equal(t, uint64(3), a.store.state.from[0], "every drop raises edges_from")
	w.server.remake()
	b.follows(t, 0) // syncs at 1
	b.crash()
	a.announce()
	a.advance(0)
	a.advance(0)
	a.advance(0)
	require.NotNil(t, a.a.parts[0].sync, "edges 2 and 3 are gone")
	a.follows(t, 0)
	w.clean(t)
	w.rest(t, 0)
}

func TestAnOwnerWhoseEdgesAreDroppedSyncsUnderAFenceOfItsOwn(t *testing.T) { // F4a, F4b
	w := newWorld(1, 0)
	a := w.workers[0]
	n := w.nodesOf(0)[0]
	w.label(n, 0)
	a.store.foldAll()
	a.follows(t, 0)
	before := a.a.parts[0].fence
	w.revise(0, 1, 1)
	w.revise(1, 1, 1)
	w.revise(2, 1, 2)
	a.store.foldAll()
	a.dropEdges(0, 3)
	a.step()
	require.Equal(t, idle, a.a.parts[0].phase, "the condition is checked in the snapshot a batch is read from")
	a.advance(0)
	batches := w.server.batches
	a.advance(0)
	require.Equal(t, batches+1, w.server.batches)
	x := a.a.parts[0]
	require.Equal(t, before.Epoch+1, x.fence.Epoch, "a sync begins with a fence alone, the present owner's too")
	require.Equal(t, before.After, x.fence.After)
	require.Equal(t, w.server.last, x.fence.Seq, "alone")
	a.follows(t, 0)
	w.clean(t)
	w.rest(t, 0)
}

func TestASyncSendsAWordToPullToThoseWhoMayHavePulledMore(t *testing.T) { // F5
	bubble(t, func(t *testing.T) {
		w := newWorld(1, 0)
		a := w.workers[0]
		n := w.nodesOf(0)[0]
		w.label(n, 0)
		w.revise(0, 1, 1)
		a.store.foldAll()
		a.pump(1)
		live, away := newClient(w, n), newClient(w, n)
		w.clients = []*client{live, away}
		for _, c := range w.clients { // both pull the row that no stream tells yet
			require.True(t, c.pullFrom(a))
			require.Equal(t, rulesets[1].Fingerprint, c.rows[0])
		}
		require.True(t, live.resume(a))
		w.log.append(event{kind: deletePolicy, policy: 0})
		a.store.foldAll()
		a.follows(t, 0)
		_, told := w.server.get(streams.NodeSubject(nodeIDs[n], policyIDs[0].String()))
		require.False(t, told, "the sync finds no difference and announces nothing")
		for a.pump(9) {
		}
		mark, ok := w.server.get(streams.SyncMarkSubject(0))
		require.True(t, ok)
		require.True(t, live.pull, "a live stream gets the word when the mark passes")
		require.Equal(t, mark.Seq, live.pos)
		require.True(t, away.resume(a))
		require.True(t, away.pull, "a resume from below the mark begins with it")
		w.rest(t, 0)
	})
}

func TestAHubDoesNotStartBeforeTheFoldHasReachedWhatIsTold(t *testing.T) { // F6
	bubble(t, func(t *testing.T) {
		w := newWorld(2, 0)
		a, b := w.workers[0], w.workers[1]
		w.label(w.nodesOf(0)[0], 0)
		w.revise(0, 1, 1)
		a.store.foldAll()
		a.follows(t, 0)
		require.False(t, b.startHub(), "its cursor is 0 and the stream tells of 2")
		b.fold(1)
		require.False(t, b.startHub())
		b.fold(1)
		require.True(t, b.startHub())
		at, err := b.h.position()
		require.NoError(t, err)
		require.Equal(t, w.server.last, at)
	})
}

func TestOneEdgeTellsBothWhoHasTheRowAndWhoLostIt(t *testing.T) { // F7
	w := newWorld(1, 0)
	a := w.workers[0]
	two := w.nodesOf(0)
	require.GreaterOrEqual(t, len(two), 2)
	w.label(two[0], 0)
	w.label(two[1], 1)
	w.revise(0, 1|2, 1)
	a.store.foldAll()
	a.follows(t, 0)
	w.revise(0, 1, 2) // other rules, and the second node is out
	a.store.foldAll()
	a.follows(t, 0)
	for i, want := range []compiler.Fingerprint{rulesets[2].Fingerprint, compiler.Empty.Fingerprint} {
		m, ok := w.server.get(streams.NodeSubject(nodeIDs[two[i]], policyIDs[0].String()))
		require.True(t, ok)
		says, _ := fingerprintOf(m.Body)
		require.Equal(t, want, says)
	}
	w.rest(t, 0)
}

func TestAHubThatLagsIsNotTheEndOfTheStream(t *testing.T) { // F8
	bubble(t, func(t *testing.T) {
		w := newWorld(2, 1)
		a, b := w.workers[0], w.workers[1]
		n := w.nodesOf(0)[0]
		c := w.clients[0]
		c.node = n
		w.label(n, 0)
		a.store.foldAll()
		b.store.foldAll()
		a.follows(t, 0)
		require.True(t, a.startHub())
		require.True(t, b.startHub())
		require.True(t, c.pullFrom(a))
		require.True(t, c.resume(a))
		w.revise(0, 1, 1)
		a.store.foldAll()
		a.follows(t, 0)
		for a.pump(9) {
		}
		at := c.pos
		require.Equal(t, w.server.last, at, "told through the process that is up to date")
		c.detach()
		require.True(t, c.resume(b), "whose gate is shut before that message")
		require.False(t, c.pull, "n is not beyond the end: only the leader knows the end")
		b.store.foldAll()
		for b.pump(9) {
		}
		require.Equal(t, at, c.pos, "and the message is not delivered again")
		w.clean(t)
		c.pos = w.server.last + 1000
		c.detach()
		require.True(t, c.resume(b))
		require.True(t, c.pull, "this is beyond the end")
		require.Equal(t, w.server.last, c.pos)
		c.pos = at
	})
}

func TestWhoMayHaveMissedAnExpiredTombstonePulls(t *testing.T) { // F9
	bubble(t, func(t *testing.T) {
		w := newWorld(1, 1)
		a := w.workers[0]
		c := w.clients[0]
		n := w.nodesOf(0)[0]
		c.node = n
		w.label(n, 0)
		w.revise(0, 1, 1)
		a.store.foldAll()
		a.follows(t, 0)
		require.True(t, a.startHub()) // the mark of day 0
		require.True(t, c.pullFrom(a))
		require.True(t, c.resume(a))
		w.log.append(event{kind: deletePolicy, policy: 0})
		c.detach()
		a.store.foldAll()
		a.follows(t, 0) // the tombstone of day 0
		_, there := w.server.get(streams.NodeSubject(nodeIDs[n], policyIDs[0].String()))
		require.True(t, there)
		w.pass(31*day, false) // nobody is up to write marks
		_, there = w.server.get(streams.NodeSubject(nodeIDs[n], policyIDs[0].String()))
		require.False(t, there, "it has expired")
		require.True(t, a.startHub())
		require.True(t, c.resume(a))
		require.True(t, c.pull, "the mark it stands above is too old to say anything")
		w.rest(t, 0)
	})
}

func TestWhoStreamsAfterThePositionOfItsPullMissesNothing(t *testing.T) { // F10
	bubble(t, func(t *testing.T) {
		w := newWorld(2, 1)
		ahead, behind := w.workers[0], w.workers[1]
		n := w.nodesOf(0)[0]
		c := w.clients[0]
		c.node = n
		w.label(n, 0)
		ahead.store.foldAll()
		behind.store.foldAll()
		ahead.follows(t, 0)
		require.True(t, ahead.startHub())
		require.True(t, behind.startHub())
		require.True(t, c.pullFrom(ahead))
		require.True(t, c.resume(ahead))
		w.revise(0, 1, 1)
		ahead.store.foldAll()
		ahead.follows(t, 0)
		for ahead.pump(9) {
		}
		require.Equal(t, rulesets[1].Fingerprint, c.rows[0])
		behind.pump(9)
		require.True(t, c.pullFrom(behind), "older rows overwrite what was streamed")
		require.Equal(t, compiler.Empty.Fingerprint, c.rows[0])
		require.Less(t, c.pos, w.server.last, "but the position is from before what the rows lack")
		c.maxv = [worldRows]uint64{}
		require.True(t, c.resume(behind))
		behind.store.foldAll()
		for behind.pump(9) {
		}
		require.Equal(t, rulesets[1].Fingerprint, c.rows[0])
		w.clean(t)
	})
}

func TestABatchOfClaimsThatIsRefusedIsRetriedPartitionByPartition(t *testing.T) {
	w := newWorld(2, 0)
	a, b := w.workers[0], w.workers[1]
	ctx := context.Background()
	require.NoError(t, a.a.readFences(ctx, a.a.parts))
	b.follows(t, 0) // in between
	out := map[*partition]outcome{}
	taken, err := a.a.claim(ctx, a.a.parts, out)
	require.NoError(t, err)
	require.Equal(t, []*partition{a.a.parts[1]}, taken)
	require.Equal(t, map[*partition]outcome{a.a.parts[0]: contested}, out)
}

func TestOneSyncMayServeManyPartitionsAndTellsNothingTwice(t *testing.T) {
	w := newWorld(1, 0)
	a := w.workers[0]
	for n := range nodeIDs {
		w.label(n, n%3)
	}
	w.revise(0, 7, 1)
	w.revise(1, 3, 2)
	a.store.foldAll()
	ctx := context.Background()
	require.NoError(t, a.a.readFences(ctx, a.a.parts))
	taken, err := a.a.claim(ctx, a.a.parts, map[*partition]outcome{})
	require.NoError(t, err)
	require.Len(t, taken, worldParts)
	require.Equal(t, a.a.parts[0].fence.Seq+1, a.a.parts[1].fence.Seq, "one batch, fences only")
	require.True(t, a.setOut(taken...))
	require.Same(t, a.a.parts[0].sync.of, a.a.parts[1].sync.of)
	require.Equal(t, 1, a.store.boxes)
	a.limit = 3
	require.True(t, a.drained(50))
	require.Zero(t, a.store.boxes, "the outbox of the sync is closed with its last partition")
	w.checkConverged()
	w.clean(t)
}

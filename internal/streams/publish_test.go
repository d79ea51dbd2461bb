package streams

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
)

func TestManyWritersAreCombinedAndEachLearnsItsOwnSequence(t *testing.T) {
	t.Parallel()
	const writers, each = 100, 4
	c := connect(t, ConnectOptions{Server: startServer(t, ServerOptions{})}) // strict: groups form
	l := openLog(t, c)
	var mu sync.Mutex
	subjects := map[uint64]string{}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				e := node(fmt.Sprintf("w%d", w), i)
				seq, dup, err := l.Publish(within(t), Append{Event: e})
				assert.NoError(t, err)
				assert.False(t, dup)
				mu.Lock()
				assert.Empty(t, subjects[seq], "sequence %d given twice", seq)
				subjects[seq] = wire.Subject(e)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	assert.Zero(t, l.share.singles)
	assert.False(t, l.grouped)
	assert.Empty(t, l.queue)
	grouped := 0
	for _, m := range collect(t, l.Follow(within(t), 0), writers*each) {
		require.Equal(t, subjects[m.Seq], m.Subject)
		if m.Get(headerBatchID) != "" {
			grouped++
		}
	}
	assert.Positive(t, grouped, "no group was formed")
}

// held keeps requests from the server until it is opened, so that writers queue
// up behind them.
type held struct {
	open  chan struct{}
	count atomic.Int32
}

func hold(c *Conn) *held {
	h := &held{open: make(chan struct{})}
	request := c.request
	c.request = func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		h.count.Add(1)
		<-h.open
		return request(ctx, m)
	}
	return h
}

// publishAtOnce starts writers that all wait, then lets them go.
func publishAtOnce(t *testing.T, l *Log, events []Append) []result {
	t.Helper()
	h := hold(l.c)
	results := make([]result, len(events))
	var group sync.WaitGroup
	for i, a := range events {
		group.Go(func() {
			seq, dup, err := l.Publish(within(t), a)
			results[i] = result{seq, dup, err}
		})
	}
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.share.singles+len(l.queue) == len(events)
	}, within20s, tick)
	close(h.open)
	group.Wait()
	return results
}

func TestUpTo32WritersGoSinglyAndTheRestAsOneBatch(t *testing.T) {
	l := openLog(t, embedded(t))
	var events []Append
	for i := range 100 {
		events = append(events, Append{Event: node("a", i)})
	}
	for _, r := range publishAtOnce(t, l, events) {
		require.NoError(t, r.err)
	}
	batches := map[string]int{}
	for _, m := range collect(t, l.Follow(within(t), 0), len(events)) {
		batches[m.Get(headerBatchID)]++
	}
	assert.Equal(t, 32, batches[""])
	assert.Len(t, batches, 2)
}

// However many writers a project has: a write of another one waits for two of them,
// and for none that came after it.
func TestAWriteWaitsForFewOfAnotherProject(t *testing.T) {
	l := openLog(t, embedded(t))
	other := uuid.New()
	of := func(project uuid.UUID, n int) Append {
		e := node(fmt.Sprint("n-", n), n)
		e.Project = project
		return Append{Event: e}
	}
	for i := range 3 { // both write
		_, _, err := l.Publish(within(t), of([]uuid.UUID{other, uuid.Max}[i%2], i))
		require.NoError(t, err)
	}
	l.c.writing.others = l.c.writing.others.Add(time.Hour) // however long the test takes
	h := hold(l.c)
	var all sync.WaitGroup
	begin := func(a Append) {
		all.Go(func() {
			_, _, err := l.Publish(within(t), a)
			assert.NoError(t, err)
		})
	}
	state := func() (singles, waiting int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.share.singles, len(l.queue)
	}
	for i := range 20 {
		begin(of(other, 100+i))
	}
	require.Eventually(t, func() bool { s, w := state(); return s+w == 20 }, within20s, tick)
	singles, waiting := state()
	assert.Equal(t, []int{ofOneProject, 20 - ofOneProject}, []int{singles, waiting})
	begin(of(uuid.Max, 200))
	require.Eventually(t, func() bool { s, w := state(); return s+w == 21 }, within20s, tick)
	singles, waiting = state()
	assert.Equal(t, []int{ofOneProject + 1, 20 - ofOneProject}, []int{singles, waiting}, "the other one is on its way")
	close(h.open)
	all.Wait()
	singles, waiting = state()
	assert.Zero(t, singles+waiting)
	assert.Empty(t, l.share.under)

	l.share.take(other)
	assert.True(t, l.share.has(other, true))
	l.share.under[other] = ofOneProject
	assert.False(t, l.share.has(other, true))
	assert.True(t, l.share.has(other, false), "who is the only one for a while has all of it")

	w, now := &writing{}, time.Now()
	w.asks(other, now)
	w.asks(other, now)
	assert.False(t, w.several(now))
	w.asks(uuid.Max, now)
	assert.True(t, w.several(now))
	assert.False(t, w.several(now.Add(othersFor)))
}

func TestAFewThatWaitGoSinglyTooBecauseASmallBatchIsSlower(t *testing.T) {
	l := openLog(t, embedded(t))
	var events []Append
	for i := range 2 * groupAbove {
		events = append(events, Append{Event: node("a", i)})
	}
	for _, r := range publishAtOnce(t, l, events) {
		require.NoError(t, r.err)
	}
	for _, m := range collect(t, l.Follow(within(t), 0), len(events)) {
		assert.Empty(t, m.Get(headerBatchID))
	}
}

func TestAGroupWithADuplicateTellsEachWriterItsOwn(t *testing.T) {
	l := openLog(t, embedded(t))
	known, _, err := l.Publish(within(t), Append{Event: node("known", 0)})
	require.NoError(t, err)
	events := []Append{}
	for i := range 99 {
		events = append(events, Append{Event: node("a", i)})
	}
	// All the same event: at least one is in the group, wherever it lands.
	for range 40 {
		events = append(events, Append{Event: node("known", 0)})
	}
	seen := map[uint64]bool{}
	for i, r := range publishAtOnce(t, l, events) {
		require.NoError(t, r.err)
		if i >= 99 {
			assert.Equal(t, known, r.seq)
			assert.True(t, r.duplicate)
			continue
		}
		assert.False(t, seen[r.seq])
		seen[r.seq] = true
	}
	s, err := l.State(within(t))
	require.NoError(t, err)
	assert.Equal(t, uint64(100), s.Last)
}

func TestAWriterThatGivesUpWhileItWaitsIsNotSent(t *testing.T) {
	l := openLog(t, embedded(t))
	h := hold(l.c)
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			_, _, err := l.Publish(within(t), Append{Event: node("a", i)})
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return h.count.Load() == 32 }, within20s, tick)
	ctx, cancel := context.WithCancel(t.Context())
	group.Go(func() {
		_, _, err := l.Publish(ctx, Append{Event: node("late", 0)})
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, ErrUnknown)
		close(h.open)
	})
	require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.queue) == 1 }, within20s, tick)
	cancel()
	group.Wait()
	s, err := l.State(within(t))
	require.NoError(t, err)
	assert.Equal(t, uint64(32), s.Last)
}

func TestALostAcknowledgementIsAskedForAgain(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	var lost atomic.Int32
	loseAnswers(c, func(m *nats.Msg) bool { return lost.Add(1) <= 2 })
	seq, dup, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	assert.Equal(t, uint64(1), seq)
	assert.True(t, dup, "its own first attempt")

	lost.Store(1)
	_, _, err = l.Publish(within(t), Append{Event: node("a", 2), Bulk: true})
	assert.ErrorIs(t, err, ErrUnknown, "without an id it cannot be asked again")
}

func TestPublishAllKeepsTheOrderAndGivesEverySequence(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	c.maxBatch = 100
	var events []Append
	for i := range 250 {
		events = append(events, Append{Event: node(fmt.Sprintf("n%d", i), 0)})
	}
	check := func(seqs []uint64) {
		for i, s := range seqs {
			require.Equal(t, uint64(i+1), s)
		}
		require.Len(t, seqs, 250)
	}
	seqs, err := l.PublishAll(within(t), events)
	require.NoError(t, err)
	check(seqs)
	for i, m := range collect(t, l.Follow(within(t), 0), 250) {
		require.Equal(t, wire.Subject(events[i].Event), m.Subject)
	}

	seqs, err = l.PublishAll(within(t), events)
	require.NoError(t, err)
	check(seqs) // all known

	seqs, err = l.PublishAll(within(t), nil)
	require.NoError(t, err)
	assert.Empty(t, seqs)
}

func TestPublishAllHalvesWhatIsTooLargeForTheServer(t *testing.T) {
	gen.Unraced()
	t.Parallel()
	const most = 100
	c := connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Relaxed: true, maxBatch: most})})
	l := openLog(t, c)
	c.maxBatch = 2 * most
	var events []Append
	for i := range most + 1 {
		events = append(events, Append{Event: node(fmt.Sprintf("n%d", i), 0), Bulk: true})
	}
	seqs, err := l.PublishAll(within(t), events)
	require.NoError(t, err)
	assert.Equal(t, uint64(most+1), seqs[most])
}

func TestPublishAllSendsABatchAgainWhoseAnswerWasLost(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	var lost atomic.Bool
	loseAnswers(c, func(m *nats.Msg) bool { return m.Header.Get(headerBatchCommit) != "" && !lost.Swap(true) })
	events := []Append{{Event: node("a", 1)}, {Event: node("a", 2)}, {Event: node("a", 3)}}
	seqs, err := l.PublishAll(within(t), events)
	require.NoError(t, err)
	assert.Equal(t, []uint64{1, 2, 3}, seqs)

	lost.Store(false)
	for i := range events {
		events[i].Bulk = true
	}
	seqs, err = l.PublishAll(within(t), events)
	require.ErrorIs(t, err, ErrUnknown)
	assert.Empty(t, seqs)
}

// What is published after an event stands right behind it on its subject, and once,
// whatever was published about anything else.
func TestWhatIsPublishedAfterAnEventStandsBehindIt(t *testing.T) {
	l := openLog(t, embedded(t))
	last, err := l.LastOf(t.Context(), node("web-1", 1))
	require.NoError(t, err)
	require.Zero(t, last)
	first, _, err := l.Publish(t.Context(), Append{Event: node("web-1", 1)})
	require.NoError(t, err)
	_, _, err = l.Publish(t.Context(), Append{Event: node("web-2", 2)})
	require.NoError(t, err)
	last, err = l.LastOf(t.Context(), node("web-1", 3))
	require.NoError(t, err)
	require.Equal(t, first, last)

	second, _, err := l.Publish(t.Context(), Append{Event: node("web-1", 3), After: first})
	require.NoError(t, err)
	_, _, err = l.Publish(t.Context(), Append{Event: node("web-1", 4), After: first})
	require.ErrorIs(t, err, ErrWrongSequence)
	again, duplicate, err := l.Publish(t.Context(), Append{Event: node("web-1", 3), After: first})
	require.NoError(t, err, "a lost acknowledgement is asked for again")
	require.True(t, duplicate)
	require.Equal(t, second, again)
	state, err := l.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, second, state.Last)
}

// What is published once is not published again when the server has long
// forgotten its id, nor by another.
func TestWhatIsPublishedOnceStandsAlone(t *testing.T) {
	l := openLog(t, embedded(t))
	e := node("web-1", 1)
	there, err := l.Holds(t.Context(), e)
	require.NoError(t, err)
	require.False(t, there)
	seq, _, err := l.Publish(t.Context(), Append{Event: e, Once: true})
	require.NoError(t, err)
	again := Append{Event: e, Once: true, Bulk: true} // without an id
	_, _, err = l.Publish(t.Context(), again)
	require.ErrorIs(t, err, ErrWrongSequence)
	there, err = l.Holds(t.Context(), e)
	require.NoError(t, err)
	require.True(t, there)
	state, err := l.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, seq, state.Last)
}

// What messages take is what the server counts, however they were published: a project's
// share of the log and the log's size add up.
func TestWhatIsStoredIsWhatTheServerCounts(t *testing.T) {
	l := openLog(t, embedded(t))
	before, err := l.State(t.Context())
	require.NoError(t, err)
	seq, _, err := l.Publish(t.Context(), Append{Event: node("web-1", 1), Principal: "ana", Correlation: "c"})
	require.NoError(t, err)
	_, _, err = l.Publish(t.Context(), Append{Event: node("web-1", 2), After: seq})
	require.NoError(t, err)
	for i, again := range []Append{{Bulk: true}, {Again: true}, {Once: true}} {
		again.Event = node(fmt.Sprint("other-", i), i+3)
		_, _, err = l.Publish(t.Context(), again)
		require.NoError(t, err)
	}
	var g errgroup.Group
	for i := range 30 { // some of them in batches
		g.Go(func() error {
			_, _, err := l.Publish(t.Context(), Append{Event: node("web-3", i+10)})
			return err
		})
	}
	require.NoError(t, g.Wait())
	after, err := l.State(t.Context())
	require.NoError(t, err)
	sum := 0
	for _, m := range collect(t, l.Follow(within(t), before.Last+1), int(after.Messages-before.Messages)) { //nolint:gosec // a few
		sum += m.Stored()
	}
	require.EqualValues(t, after.Bytes-before.Bytes, sum)
	about := Append{Event: node("web-1", 1), Principal: "ana", Correlation: "c"}.Stored()
	require.InDelta(t, about, sum/int(after.Messages-before.Messages), 200) //nolint:gosec // a few
}

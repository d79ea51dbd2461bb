package streams

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// announcements are n messages to nodes n0, n1, ….
func announcements(n int) []Outgoing {
	out := make([]Outgoing, n)
	for i := range out {
		out[i] = Outgoing{
			Subject: fmt.Sprintf("edict.node.n%d.p", i),
			Header:  []string{HeaderEdictID, fmt.Sprintf("n%d.p.1", i)},
			Body:    fmt.Appendf(nil, "body %d", i),
		}
	}
	return out
}

func fence(p int, expect uint64) Outgoing {
	return Outgoing{Subject: FenceSubject(p), Body: []byte("{}"), Expect: expect, HasExpect: true, MsgID: fmt.Sprintf("fence %d %d", p, expect)}
}

// batchOf is a fence and n-1 announcements.
func batchOf(n int, expect uint64) []Outgoing {
	return append([]Outgoing{fence(0, expect)}, announcements(n-1)...)
}

func TestABatchIsStoredWholeWithSequencesThatFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 9_999} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			n := openNodes(t, embedded(t))
			first, err := n.PublishBatch(within(t), batchOf(size, 0))
			require.NoError(t, err)
			assert.Equal(t, n.First(), first)
			got := collect(t, n.Follow(within(t), 0), size)
			for i, m := range got {
				require.Equal(t, first+uint64(i), m.Seq)
			}
			if size > 2 {
				assert.Equal(t, "edict.node.n1.p", got[2].Subject)
				assert.Equal(t, "body 1", string(got[2].Body))
				assert.Equal(t, "n1.p.1", got[2].Get(HeaderEdictID))
			}
			second, err := n.PublishBatch(within(t), batchOf(size, first))
			require.NoError(t, err)
			assert.Equal(t, first+uint64(size), second)
		})
	}
}

func TestABatchThatCannotBeStoresNothing(t *testing.T) {
	huge := bytes.Repeat([]byte("x"), embeddedMaxPayload)
	cases := map[string]struct {
		msgs []Outgoing
		want error
	}{
		"the fence has moved":                    {batchOf(3, 1), ErrWrongSequence},
		"the fence alone has moved":              {batchOf(1, 1), ErrWrongSequence},
		"the fence is not there":                 {[]Outgoing{fence(1, 9), announcements(1)[0]}, ErrWrongSequence},
		"the fence's id is known":                {[]Outgoing{{Subject: FenceSubject(0), MsgID: "fence 0 0"}, announcements(1)[0]}, ErrDuplicate},
		"the id of a fence alone is known":       {[]Outgoing{{Subject: FenceSubject(0), MsgID: "fence 0 0"}}, ErrDuplicate},
		"an id stands in it twice":               {[]Outgoing{{Subject: FenceSubject(1), MsgID: "x"}, {Subject: FenceSubject(2), MsgID: "x"}}, ErrDuplicate},
		"more messages than the server takes":    {announcements(embeddedMaxBatch + 1), ErrTooLarge},
		"a message larger than the server takes": {[]Outgoing{fence(1, 0), {Subject: "edict.node.a.p", Body: huge}}, ErrMessageTooLarge},
		"a single one larger than that":          {[]Outgoing{{Subject: "edict.node.a.p", Body: huge}}, ErrMessageTooLarge},
	}
	n := openNodes(t, embedded(t))
	_, err := n.PublishBatch(within(t), batchOf(2, 0))
	require.NoError(t, err)
	before, err := n.State(within(t))
	require.NoError(t, err)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := n.PublishBatch(within(t), c.msgs)
			require.ErrorIs(t, err, c.want)
			after, err := n.State(within(t))
			require.NoError(t, err)
			assert.Equal(t, before, after)
		})
	}
	_, err = n.PublishBatch(within(t), nil)
	assert.Error(t, err)
}

func TestABatchOverTheServersOwnLimitIsTooLarge(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	n := openNodes(t, c)
	c.maxBatch = embeddedMaxBatch + 10 // as a server with a lower limit than was assumed
	_, err := n.PublishBatch(within(t), announcements(embeddedMaxBatch+1))
	assert.ErrorIs(t, err, ErrTooLarge)
}

func TestSeveralFencesTravelInOneBatch(t *testing.T) {
	n := openNodes(t, embedded(t))
	first, err := n.PublishBatch(within(t), []Outgoing{fence(0, 0), fence(1, 0), announcements(1)[0]})
	require.NoError(t, err)
	_, err = n.PublishBatch(within(t), []Outgoing{fence(0, first), fence(1, first), announcements(1)[0]})
	require.ErrorIs(t, err, ErrWrongSequence)
	_, err = n.PublishBatch(within(t), []Outgoing{fence(0, first), fence(1, first+1), announcements(1)[0]})
	require.NoError(t, err)
}

// loseAnswers drops the answers to the messages that match picks, after the
// server has acted on them, and returns how to stop that.
func loseAnswers(c *Conn, match func(m *nats.Msg) bool) (restore func()) {
	request := c.request
	c.request = func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		lost := match(m)
		resp, err := request(ctx, m)
		if err == nil && lost {
			return nil, nats.ErrTimeout
		}
		return resp, err
	}
	return func() { c.request = request }
}

func TestALostAnswerToTheCommitIsUnknownAndTheSameBatchAgainIsRefused(t *testing.T) {
	for _, size := range []int{1, 3} {
		c := embedded(t)
		n := openNodes(t, c)
		restore := loseAnswers(c, func(m *nats.Msg) bool { return size == 1 || m.Header.Get(headerBatchCommit) != "" })
		_, err := n.PublishBatch(within(t), batchOf(size, 0))
		require.ErrorIs(t, err, ErrUnknown)
		restore()
		s, err := n.State(within(t))
		require.NoError(t, err)
		assert.Equal(t, uint64(size), s.Messages)
		// Of a batch the server looks at the id first, of a single message at the sequence.
		_, err = n.PublishBatch(within(t), batchOf(size, 0))
		assert.ErrorIs(t, err, map[int]error{1: ErrWrongSequence, 3: ErrDuplicate}[size])
	}
}

func TestALostReceiptOfTheFirstMessageIsUnknownAndStoresNothing(t *testing.T) {
	c := embedded(t)
	n := openNodes(t, c)
	loseAnswers(c, func(m *nats.Msg) bool { return m.Header.Get(headerBatchSeq) == "1" })
	_, err := n.PublishBatch(within(t), batchOf(3, 0))
	require.ErrorIs(t, err, ErrUnknown)
	s, err := n.State(within(t))
	require.NoError(t, err)
	assert.Zero(t, s.Messages)
}

func TestABatchWhoseConnectionIsLostIsUnknown(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true})
	c := connect(t, ConnectOptions{Server: s})
	n := openNodes(t, c)
	request := c.request
	c.request = func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		if m.Header.Get(headerBatchCommit) != "" {
			c.link.lost() // as the client tells it
		}
		return request(ctx, m)
	}
	_, err := n.PublishBatch(within(t), batchOf(3, 0))
	assert.ErrorIs(t, err, ErrUnknown)
	c.link.found()
}

func TestATombstoneExpires(t *testing.T) {
	t.Parallel()
	n := openNodes(t, embedded(t))
	msgs := batchOf(3, 0)
	msgs[1].TTL = 10 * time.Millisecond // rounded up to a second
	msgs[2].TTL = n.TombstoneTTL()
	_, err := n.PublishBatch(within(t), msgs)
	require.NoError(t, err)
	got, _, err := n.Last(within(t), 0, ">")
	require.NoError(t, err)
	assert.Equal(t, "1s", got[1].Get(headerTTL))
	assert.Equal(t, "2592000s", got[2].Get(headerTTL))
	require.Eventually(t, func() bool {
		got, _, err := n.Last(within(t), 0, ">")
		return err == nil && len(got) == 2
	}, 15*time.Second, 50*time.Millisecond)
}

func TestOnlyTheLastMessageOfASubjectIsKept(t *testing.T) {
	n := openNodes(t, embedded(t))
	for range 3 {
		_, err := n.PublishBatch(within(t), announcements(2))
		require.NoError(t, err)
	}
	assert.Equal(t, []uint64{n.First() + 4, n.First() + 5}, sequences(collect(t, n.Follow(within(t), 0), 2)))
}

func TestLiveListenersHearWhatANodeIsTold(t *testing.T) {
	c := embedded(t)
	n := openNodes(t, c)
	sub, err := c.nc.SubscribeSync(LiveFilter("n0"))
	require.NoError(t, err)
	first, err := n.PublishBatch(within(t), batchOf(3, 0))
	require.NoError(t, err)
	m, err := sub.NextMsgWithContext(within(t))
	require.NoError(t, err)
	assert.Equal(t, "edict.live.node.n0.p", m.Subject)
	assert.Equal(t, fmt.Sprint(first+1), m.Header.Get("Nats-Sequence"))
}

func TestTheNodeStreamStartsAtTheMicrosecondItWasMade(t *testing.T) {
	before := uint64(time.Now().UnixMicro())
	c := embedded(t)
	n := openNodes(t, c)
	after := uint64(time.Now().UnixMicro())
	assert.LessOrEqual(t, before, n.First())
	assert.LessOrEqual(t, n.First(), after)
	s, err := n.State(within(t))
	require.NoError(t, err)
	assert.Equal(t, State{First: n.First(), Last: n.First() - 1}, s)
	assert.Equal(t, 9_999, n.MaxBatch())

	again, made, err := OpenNodes(within(t), c, NodesOptions{})
	require.NoError(t, err)
	assert.False(t, made)
	assert.Equal(t, n.First(), again.First())
}

func TestAStreamMadeWithAClockBehindStartsAboveTheLastSequenceKnown(t *testing.T) {
	above := uint64(time.Now().Add(time.Hour).UnixMicro())
	n, made, err := OpenNodes(within(t), embedded(t), NodesOptions{Above: above})
	require.NoError(t, err)
	assert.True(t, made)
	assert.Equal(t, above+1, n.First())
}

func TestOneOfManyThatOpenAtOnceMakesTheStream(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true})
	const processes = 8
	results := make(chan bool, processes)
	for range processes {
		c := connect(t, ConnectOptions{Server: s})
		go func() {
			_, made, err := OpenNodes(t.Context(), c, NodesOptions{})
			assert.NoError(t, err)
			results <- made
		}()
	}
	count := 0
	for range processes {
		if <-results {
			count++
		}
	}
	assert.Equal(t, 1, count)
}

func TestAStreamOfAnotherLogIsRemadeAboveTheOldOne(t *testing.T) {
	c := embedded(t)
	old, made, err := OpenNodes(within(t), c, NodesOptions{LogID: "1"})
	require.NoError(t, err)
	require.True(t, made)
	_, err = old.PublishBatch(within(t), batchOf(3, 0))
	require.NoError(t, err)
	before, err := old.State(within(t))
	require.NoError(t, err)

	_, _, err = OpenNodes(within(t), c, NodesOptions{LogID: "2"})
	var other *OtherLogError
	require.ErrorAs(t, err, &other)
	assert.Equal(t, OtherLogError{Have: "1", Want: "2", First: old.First()}, *other)

	n, made, err := RemakeNodes(within(t), c, NodesOptions{LogID: "2"}, other.First)
	require.NoError(t, err)
	assert.True(t, made)
	assert.Greater(t, n.First(), before.Last)

	again, made, err := RemakeNodes(within(t), c, NodesOptions{LogID: "2"}, other.First)
	require.NoError(t, err)
	assert.False(t, made, "another process was first")
	assert.Equal(t, n.First(), again.First())

	_, err = old.State(within(t))
	var damaged *DamagedError
	assert.ErrorAs(t, err, &damaged)
	for _, err := range old.Follow(within(t), before.Last+1) {
		assert.ErrorAs(t, err, &damaged)
		assert.ErrorContains(t, err, "remade")
	}
}

func TestAnEmptyStreamRemadeAtOnceStartsHigher(t *testing.T) {
	c := embedded(t)
	a := openNodes(t, c)
	b, made, err := RemakeNodes(within(t), c, NodesOptions{}, a.First())
	require.NoError(t, err)
	assert.True(t, made)
	assert.Greater(t, b.First(), a.First())
}

func TestAStreamCanBeRemadeAgainAndAgain(t *testing.T) {
	c := embedded(t)
	n := openNodes(t, c)
	for range 50 {
		_, err := n.PublishBatch(within(t), announcements(20))
		require.NoError(t, err)
		var made bool
		n, made, err = RemakeNodes(within(t), c, NodesOptions{}, n.First())
		require.NoError(t, err)
		require.True(t, made)
		s, err := n.State(within(t))
		require.NoError(t, err)
		require.Equal(t, State{First: n.First(), Last: n.First() - 1}, s)
	}
}

func TestReadGivesWhatMatchesUpToASequenceAndEnds(t *testing.T) {
	n := openNodes(t, embedded(t))
	first, err := n.PublishBatch(within(t), batchOf(2_001, 0))
	require.NoError(t, err)
	read := func(from, to uint64, filters ...string) []uint64 {
		var got []uint64
		for batch, err := range n.Read(within(t), from, to, filters...) {
			require.NoError(t, err)
			got = append(got, sequences(batch)...)
		}
		return got
	}
	assert.Len(t, read(0, first+2000, "edict.node.*.>"), 2000)
	assert.Len(t, read(0, first+2000, "edict.node.*.>", FenceSubject(0)), 2001)
	assert.Equal(t, []uint64{first + 5, first + 6, first + 7}, read(first+5, first+7, "edict.node.*.>"))
	assert.Equal(t, []uint64{first + 6}, read(0, first+2000, "edict.node.n5.>"))
	assert.Empty(t, read(first+7, first+2000, "edict.node.n5.>"))
	assert.Empty(t, read(0, first+5, "edict.node.n5.>"))
	assert.Empty(t, read(0, first+5, "edict.node.nobody.>"))
	assert.Empty(t, read(first+6, first+5, "edict.node.n5.>"))

	for _, err := range n.Read(within(t), 0, first+3000, ">") {
		assert.ErrorContains(t, err, fmt.Sprintf("ends at %d", first+2000))
	}
}

func TestReadEndsThoughWhatWasPendingIsReplaced(t *testing.T) {
	t.Parallel()
	n := openNodes(t, embedded(t))
	first, err := n.PublishBatch(within(t), announcements(1500))
	require.NoError(t, err)
	to := first + 1499
	total, replaced := 0, false
	for batch, err := range n.Read(within(t), 0, to, "edict.node.*.>") {
		require.NoError(t, err)
		total += len(batch)
		if !replaced {
			replaced = true
			_, err := n.PublishBatch(within(t), announcements(1500))
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, batch[len(batch)-1].Seq, to)
	}
	assert.LessOrEqual(t, total, 1500)
}

func TestSubjectsOfTheNodeStream(t *testing.T) {
	assert.Equal(t, "edict.node.a.p", NodeSubject("a", "p"))
	assert.Equal(t, "edict.node.a.>", NodeFilter("a"))
	assert.Equal(t, "edict.fence.3", FenceSubject(3))
	assert.Equal(t, "edict.mark.sync.3", SyncMarkSubject(3))
	late := time.Date(2026, 11, 20, 23, 30, 0, 0, time.FixedZone("", -3600))
	assert.Equal(t, "edict.mark.day.2026-11-21", DayMarkSubject(late))
	for _, s := range []string{NodeSubject("a", "artifact.k.n"), FenceSubject(1), DayMarkSubject(late), SyncMarkSubject(1)} {
		assert.True(t, strings.HasPrefix(s, "edict."))
		matched := false
		for _, f := range nodesSubjects {
			matched = matched || covers(f, s)
		}
		assert.True(t, matched, s)
	}
}

package streams

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
)

// pile is a stream of the test that takes atomic batches.
type pile struct {
	t     testing.TB
	c     *Conn
	batch *batcher
}

const (
	pileName  = "PILE"
	pileFirst = 1000
)

func openPile(t testing.TB, c *Conn) *pile {
	t.Helper()
	_, err := c.js.CreateStream(within(t), jetstream.StreamConfig{
		Name: pileName, Subjects: []string{wire.PrefixNode + ">", "test.fence.*"}, Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, AllowAtomicPublish: true, FirstSeq: pileFirst,
	})
	require.NoError(t, err)
	return &pile{t, c, newBatcher(c)}
}

// PublishBatch publishes as the log does.
func (p *pile) PublishBatch(ctx context.Context, msgs []Outgoing) (uint64, error) {
	return p.batch.publish(ctx, msgs)
}

// State is the stream's extent.
func (p *pile) State(ctx context.Context) (State, error) {
	info, err := p.c.streamInfo(ctx, pileName)
	if err != nil {
		return State{}, err
	}
	return stateOf(info), nil
}

// all reads n messages.
func (p *pile) all(n int) []Message {
	p.t.Helper()
	f := follower{c: p.c, stream: pileName, next: pileFirst, verify: func(*jetstream.StreamInfo) error { return nil }}
	return collect(p.t, f.follow(within(p.t)), n)
}

// notes are n messages to nodes n0, n1, ….
func notes(n int) []Outgoing {
	out := make([]Outgoing, n)
	for i := range out {
		out[i] = Outgoing{
			Subject: fmt.Sprintf("edict.node.n%d.p", i),
			Header:  []string{wire.HeaderEdictID, fmt.Sprintf("n%d.p.1", i)},
			Body:    fmt.Appendf(nil, "body %d", i),
		}
	}
	return out
}

func fence(p int, expect uint64) Outgoing {
	return Outgoing{Subject: fmt.Sprintf("test.fence.%d", p), Body: []byte("{}"), Expect: expect, HasExpect: true, MsgID: fmt.Sprintf("fence %d %d", p, expect)}
}

// batchOf is a fence and n-1 notes.
func batchOf(n int, expect uint64) []Outgoing {
	return append([]Outgoing{fence(0, expect)}, notes(n-1)...)
}

func TestABatchIsStoredWholeWithSequencesThatFollowEachOther(t *testing.T) {
	gen.Unraced()
	t.Parallel()
	for _, size := range []int{1, 2, 3, 1_500} { // more than a server takes by default
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			n := openPile(t, embedded(t))
			first, err := n.PublishBatch(within(t), batchOf(size, 0))
			require.NoError(t, err)
			assert.Equal(t, uint64(pileFirst), first)
			got := n.all(size)
			for i, m := range got {
				require.Equal(t, first+uint64(i), m.Seq)
			}
			if size > 2 {
				assert.Equal(t, "edict.node.n1.p", got[2].Subject)
				assert.Equal(t, "body 1", string(got[2].Body))
				assert.Equal(t, "n1.p.1", got[2].Get(wire.HeaderEdictID))
			}
			second, err := n.PublishBatch(within(t), batchOf(min(size, 3), first))
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
		"the fence is not there":                 {[]Outgoing{fence(1, 9), notes(1)[0]}, ErrWrongSequence},
		"the fence's id is known":                {[]Outgoing{{Subject: "test.fence.0", MsgID: "fence 0 0"}, notes(1)[0]}, ErrDuplicate},
		"the id of a fence alone is known":       {[]Outgoing{{Subject: "test.fence.0", MsgID: "fence 0 0"}}, ErrDuplicate},
		"an id stands in it twice":               {[]Outgoing{{Subject: "test.fence.1", MsgID: "x"}, {Subject: "test.fence.2", MsgID: "x"}}, ErrDuplicate},
		"more messages than the server takes":    {notes(embeddedMaxBatch + 1), ErrTooLarge},
		"a message larger than the server takes": {[]Outgoing{fence(1, 0), {Subject: "edict.node.a.p", Body: huge}}, ErrMessageTooLarge},
		"a single one larger than that":          {[]Outgoing{{Subject: "edict.node.a.p", Body: huge}}, ErrMessageTooLarge},
	}
	n := openPile(t, embedded(t))
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
	gen.Unraced()
	t.Parallel()
	const most = 20
	c := connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Relaxed: true, maxBatch: most})})
	n := openPile(t, c)
	c.maxBatch = most + 10 // as a server with a lower limit than was assumed
	_, err := n.PublishBatch(within(t), notes(most+1))
	assert.ErrorIs(t, err, ErrTooLarge)
}

func TestSeveralFencesTravelInOneBatch(t *testing.T) {
	n := openPile(t, embedded(t))
	first, err := n.PublishBatch(within(t), []Outgoing{fence(0, 0), fence(1, 0), notes(1)[0]})
	require.NoError(t, err)
	_, err = n.PublishBatch(within(t), []Outgoing{fence(0, first), fence(1, first), notes(1)[0]})
	require.ErrorIs(t, err, ErrWrongSequence)
	_, err = n.PublishBatch(within(t), []Outgoing{fence(0, first), fence(1, first+1), notes(1)[0]})
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
		n := openPile(t, c)
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
	n := openPile(t, c)
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
	n := openPile(t, c)
	request := c.request
	c.request = func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		if m.Header.Get(headerBatchCommit) != "" {
			c.link.lost(nil) // as the client tells it
			<-ctx.Done()     // what is under way ends, in a goroutine of its own
		}
		return request(ctx, m)
	}
	_, err := n.PublishBatch(within(t), batchOf(3, 0))
	assert.ErrorIs(t, err, ErrUnknown)
	c.link.found()
}

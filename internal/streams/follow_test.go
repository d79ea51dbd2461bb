package streams

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/natscluster"
)

// feed follows in the background and hands over what it yields.
func feed(t *testing.T, seq func(yield func([]Message, error) bool)) <-chan Message {
	t.Helper()
	out := make(chan Message, 10_000)
	var done sync.WaitGroup
	done.Go(func() {
		for batch, err := range seq {
			assert.NoError(t, err)
			assert.LessOrEqual(t, len(batch), followBatch)
			for _, m := range batch {
				out <- m
			}
		}
	})
	t.Cleanup(done.Wait)
	return out
}

func next(t *testing.T, in <-chan Message) Message {
	t.Helper()
	select {
	case m := <-in:
		return m
	case <-time.After(within20s):
		require.FailNow(t, "no message came")
		return Message{}
	}
}

func TestAFollowerOutlivesRestartsOfTheServer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"in process", "over TCP", "over TCP, another server on the same directory and port"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			s := startServer(t, ServerOptions{Dir: dir, Listen: "127.0.0.1:0"})
			opt := ConnectOptions{Server: s}
			if how != "in process" {
				opt = ConnectOptions{URL: s.ClientURL()}
			}
			c := connect(t, opt)
			l := openLog(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in := feed(t, l.Follow(ctx, 0))
			for i := range 6 {
				seq, _, err := l.Publish(within(t), Append{Event: node("a", i)})
				require.NoError(t, err)
				if i == 2 || i == 4 { // once with the message under way, once idle
					if how == "over TCP, another server on the same directory and port" {
						listen := s.listen
						s.Close()
						s = startServer(t, ServerOptions{Dir: dir, Listen: listen})
					} else {
						require.NoError(t, s.Restart())
					}
				}
				require.Equal(t, seq, next(t, in).Seq)
			}
			cancel()
		})
	}
}

func TestALongLogIsReadInOrder(t *testing.T) {
	gen.Unraced()
	t.Parallel()
	c := embedded(t)
	require.Equal(t, followBuffer, c.ahead)
	c.ahead = 300
	l := openLog(t, c)
	const total = 1500
	var events []Append
	for i := range total {
		events = append(events, Append{Event: node(fmt.Sprintf("n%d", i), 0), Bulk: true})
	}
	_, err := l.PublishAll(within(t), events)
	require.NoError(t, err)
	got := collect(t, l.Follow(within(t), 0), total)
	for i := range got {
		require.Equal(t, uint64(i+1), got[i].Seq)
	}
}

func TestAFullQueueHoldsItsWriterBack(t *testing.T) {
	const most = 300
	q := newQueue(context.Background(), 0, most)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 2 * most {
			q.put(fakeMsg{reply: fmt.Sprintf("$JS.ACK.S.C.1.%d.%d.1.0", i+1, i+1)})
		}
	})
	held := func() int {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.msgs)
	}
	require.Eventually(t, func() bool { return held() == most }, within20s, tick)
	want := uint64(1)
	for want <= 2*most {
		batch, _, err := q.take(within(t), 0)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(batch), followBatch)
		assert.LessOrEqual(t, held(), most)
		for _, m := range batch {
			require.Equal(t, want, m.Seq)
			want++
		}
	}
	writer.Wait()
}

func TestAFollowerBeginsWhereItIsToldAndEndsWithItsContext(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	for i := range 5 {
		_, _, err := l.Publish(within(t), Append{Event: node("a", i)})
		require.NoError(t, err)
	}
	assert.Equal(t, []uint64{4, 5}, sequences(collect(t, l.Follow(within(t), 4), 2)))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for batch, err := range l.Follow(ctx, 6) { // one beyond the end: live
			assert.NoError(t, err)
			assert.Equal(t, uint64(6), batch[0].Seq)
			cancel()
		}
	}()
	_, _, err := l.Publish(within(t), Append{Event: node("a", 9)})
	require.NoError(t, err)
	<-ended
	info, err := c.streamInfo(within(t), LogStream)
	require.NoError(t, err)
	assert.Zero(t, info.State.Consumers, "its consumers are gone")
}

func TestManyFollowersLeaveNoConsumers(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	for range 20 {
		collect(t, l.Follow(within(t), 1), 1)
	}
	info, err := c.streamInfo(within(t), LogStream)
	require.NoError(t, err)
	assert.Zero(t, info.State.Consumers)
}

func TestAFollowerOfAClosedConnectionEndsWithAnError(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	c.Close()
	var got error
	for _, err := range l.Follow(within(t), 1) {
		got = err
	}
	assert.ErrorContains(t, got, "connection closed")
}

func TestAMessageLostOnTheWayIsReadAgain(t *testing.T) {
	l := openLog(t, embedded(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := feed(t, l.Follow(ctx, 0))
	_, _, err := l.Publish(within(t), Append{Event: node("a", 0)})
	require.NoError(t, err)
	require.Equal(t, uint64(1), next(t, in).Seq)
	l.c.link.lost(nil) // as the client tells it: what was under way is gone
	l.c.link.found()
	_, _, err = l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	require.Equal(t, uint64(2), next(t, in).Seq)
	cancel()
}

func TestTheQueueTellsALostMessageFromAnAbsentOne(t *testing.T) {
	q := newQueue(context.Background(), 0, followBuffer)
	q.put(fakeMsg{reply: "$JS.ACK.S.C.1.10.1.1700000000000000000.5"})
	q.put(fakeMsg{reply: "$JS.ACK.S.C.1.12.2.1700000000000000000.4"}) // 11 is absent
	batch, pending, err := q.take(within(t), 0)
	require.NoError(t, err)
	assert.Equal(t, []uint64{10, 12}, sequences(batch))
	assert.Equal(t, uint64(4), pending)
	q.put(fakeMsg{reply: "$JS.ACK.S.C.1.13.3.1700000000000000000.3"})
	q.put(fakeMsg{reply: "$JS.ACK.S.C.1.15.5.1700000000000000000.1"}) // the consumer's 4th is lost
	batch, _, err = q.take(within(t), 0)
	require.NoError(t, err, "what came before is given first")
	assert.Equal(t, []uint64{13}, sequences(batch))
	_, _, err = q.take(within(t), 0)
	assert.ErrorIs(t, err, errRestart)
}

func TestDeliveriesAreReadFromEveryFormOfReplySubject(t *testing.T) {
	want := delivery{streamSeq: 1795253569000000, consumerSeq: 12, time: time.Unix(0, 1700000000000000001).UTC(), pending: 7}
	for _, reply := range []string{
		"$JS.ACK.STREAM.consumer.1.1795253569000000.12.1700000000000000001.7",
		"$JS.ACK.hub.acchash.STREAM.consumer.1.1795253569000000.12.1700000000000000001.7",
		"$JS.ACK._.acchash.STREAM.consumer.1.1795253569000000.12.1700000000000000001.7.token",
	} {
		got, ok := parseDelivery(reply)
		assert.True(t, ok, reply)
		assert.Equal(t, want, got, reply)
	}
	for _, reply := range []string{"", "_INBOX.x", "$JS.ACK.", "$JS.ACK.S.C.1.x.1.1.1", "$JS.ACK.S.C.1.1.1.1", "$JS.ACK.S.C.1.-1.1.1.1"} {
		_, ok := parseDelivery(reply)
		assert.False(t, ok, reply)
	}
}

// Large messages are given few at a time, and what was given is kept by nobody.
func TestTheQueueGivesFewLargeMessagesTogether(t *testing.T) {
	q := newQueue(context.Background(), 0, followBuffer)
	const size = followTogether/2 - 1024
	for i := range 5 {
		q.put(fakeMsg{reply: fmt.Sprintf("$JS.ACK.S.C.1.%d.%d.1.0", i+1, i+1), data: make([]byte, size)})
	}
	q.put(fakeMsg{reply: "$JS.ACK.S.C.1.6.6.1.0", data: make([]byte, 2*followTogether)})
	under := q.msgs
	var got []int
	for !q.empty() {
		batch, _, err := q.take(within(t), 0)
		require.NoError(t, err)
		got = append(got, len(batch))
	}
	assert.Equal(t, []int{2, 2, 1, 1}, got)
	for _, m := range under[:5] {
		assert.Nil(t, m.Body)
	}
}

// onceAgain calls a function the first time something is followed again.
type onceAgain struct {
	slog.Handler
	do func()
}

func (h onceAgain) Enabled(context.Context, slog.Level) bool { return true }

func (h onceAgain) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "following again" {
		h.do()
	}
	return nil
}

// TestABoundedReadWaitsForAReplicaThatLags: the end was the leader's, and the replica that
// is read from does not have it yet. What nobody has does not come.
func TestABoundedReadWaitsForAReplicaThatLags(t *testing.T) {
	t.Parallel()
	servers := natscluster.Start(t, 3)
	l := openLog(t, connect(t, ConnectOptions{URL: servers.URL(), Replicas: 3}))
	arrives := sync.OnceFunc(func() {
		_, _, err := l.Publish(within(t), Append{Event: node("a", 2)})
		assert.NoError(t, err)
	})
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	c := connect(t, ConnectOptions{URL: servers.URL(), Log: slog.New(onceAgain{slog.DiscardHandler, arrives})})
	f := follower{c: c, stream: LogStream, next: 1, to: 3, verify: func(*jetstream.StreamInfo) error { return nil }}
	var seqs []uint64
	for batch, err := range f.follow(within(t)) {
		require.NoError(t, err)
		for _, m := range batch {
			seqs = append(seqs, m.Seq)
		}
	}
	require.Equal(t, []uint64{1, 2}, seqs)
}

package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// BenchmarkFanOut is one revision of a policy of 20 rules that every one of
// 100,000 nodes has, from the log to the last message stored in the node
// stream. Its floor, in the same round, is a plain stream that takes the same
// subjects, headers and bodies: without acknowledgements when durability is
// relaxed, asynchronously acknowledged when it is strict.
func BenchmarkFanOut(b *testing.B) {
	const nodes = 100_000
	for _, relaxed := range []bool{true, false} {
		b.Run(map[bool]string{true: streams.Relaxed, false: streams.Strict}[relaxed], func(b *testing.B) {
			p := newPlaneOf(b, streams.ServerOptions{Relaxed: relaxed}, 64)
			p.fleet(nodes)
			told := &counter{left: make(chan int, nodes)}
			w := p.start(b.TempDir(), relay.Options{Metrics: told})
			p.released(w, p.log.First()+nodes-1)
			var took, floor time.Duration
			count := 0
			ports := make([]uint16, 20)
			for i := range b.N {
				for r := range ports {
					ports[r] = uint16(1 + i*len(ports)%60_000 + r)
				}
				began := time.Now()
				seq := p.revise(policyID(1), "role=a", ports...)
				told.wait(nodes)
				took += time.Since(began)
				p.released(w, seq)
				msgs := p.announced(nodes)
				if !relaxed {
					msgs = msgs[:10_000]
				}
				count += len(msgs)
				floor += p.floor(msgs, relaxed)
			}
			ours, plain := float64(nodes*b.N)/took.Seconds(), float64(count)/floor.Seconds()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours, "msg/s")
			b.ReportMetric(plain, "floor-msg/s")
			b.ReportMetric(ours/plain, "ratio")
		})
	}
}

// announced is what the node stream holds for nodes: want messages.
func (p *plane) announced(want int) (msgs []streams.Message) {
	p.t.Helper()
	n, _, err := streams.OpenNodes(p.t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()})
	require.NoError(p.t, err)
	st, err := n.State(p.t.Context())
	require.NoError(p.t, err)
	for some, err := range n.Read(p.t.Context(), n.First(), st.Last, "edict.node.>") {
		require.NoError(p.t, err)
		msgs = append(msgs, some...)
	}
	require.Len(p.t, msgs, want)
	return msgs
}

// floor has a plain stream take msgs and says how long that took. Such a stream
// without acknowledgements drops what it cannot take, so what it stored is
// counted.
func (p *plane) floor(msgs []streams.Message, noAck bool) time.Duration {
	p.t.Helper()
	ctx := p.t.Context()
	nc, err := nats.Connect("", nats.InProcessServer(p.server))
	require.NoError(p.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	require.NoError(p.t, err)
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "FLOOR", Subjects: []string{"floor.>"}, NoAck: noAck})
	require.NoError(p.t, err)
	plain := make([]*nats.Msg, len(msgs))
	for i, m := range msgs {
		plain[i] = &nats.Msg{Subject: "floor" + m.Subject[len("edict"):], Data: m.Body, Header: nats.Header{}}
		for k, v := range m.Header {
			plain[i].Header["X"+k[1:]] = v // as long, but nothing that the server acts upon
		}
	}
	began := time.Now()
	if noAck {
		err = publishNoAck(ctx, nc, s, plain)
	} else {
		err = publishAsync(ctx, js, plain)
	}
	took := time.Since(began)
	require.NoError(p.t, err)
	info, err := s.Info(ctx)
	require.NoError(p.t, err)
	require.Equal(p.t, uint64(len(msgs)), info.State.Msgs)
	require.NoError(p.t, js.DeleteStream(ctx, "FLOOR"))
	return took
}

// publishNoAck returns when all is stored, or when nothing more comes.
func publishNoAck(ctx context.Context, nc *nats.Conn, s jetstream.Stream, msgs []*nats.Msg) error {
	for _, m := range msgs {
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	last, since := uint64(0), time.Now()
	for {
		info, err := s.Info(ctx)
		if err != nil || info.State.Msgs == uint64(len(msgs)) {
			return err
		}
		if info.State.Msgs != last {
			last, since = info.State.Msgs, time.Now()
		} else if time.Since(since) > 10*time.Second {
			return fmt.Errorf("the stream stored %d of %d messages", last, len(msgs))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func publishAsync(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) error {
	for _, m := range msgs {
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("not all is acknowledged"), ctx.Err())
	}
}

// counter counts announcements.
type counter struct {
	clients
	left chan int
}

func (c *counter) Announced(n, _ int) { c.left <- n }

func (c *counter) wait(n int) {
	for n > 0 {
		n -= <-c.left
	}
}

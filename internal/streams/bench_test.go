package streams

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPublishBatch publishes full batches of 300-byte bodies; its floor is
// BenchmarkPublishAlone, an acknowledged write at a time.
func BenchmarkPublishBatch(b *testing.B) {
	for _, relaxed := range []bool{true, false} {
		b.Run(map[bool]string{true: Relaxed, false: Strict}[relaxed], func(b *testing.B) {
			n := openPile(b, connect(b, ConnectOptions{Server: startServer(b, ServerOptions{Relaxed: relaxed})}))
			msgs := notes(n.c.maxBatch)
			for i := range msgs {
				msgs[i].Body = make([]byte, 300)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_, err := n.PublishBatch(b.Context(), msgs)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N*len(msgs))/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

func BenchmarkPublishAlone(b *testing.B) {
	for _, relaxed := range []bool{true, false} {
		b.Run(map[bool]string{true: Relaxed, false: Strict}[relaxed], func(b *testing.B) {
			l := openLog(b, connect(b, ConnectOptions{Server: startServer(b, ServerOptions{Relaxed: relaxed})}))
			for i := range b.N {
				_, _, err := l.Publish(b.Context(), Append{Event: node("a", i)})
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkFollow reads a log of 100,000 events.
func BenchmarkFollow(b *testing.B) {
	const total = 100_000
	l := openLog(b, embedded(b))
	events := make([]Append, total)
	for i := range events {
		events[i] = Append{Event: node(fmt.Sprintf("n%d", i), 0), Bulk: true}
	}
	_, err := l.PublishAll(b.Context(), events)
	require.NoError(b, err)
	b.ResetTimer()
	for range b.N {
		seen := 0
		for batch, err := range l.Follow(b.Context(), 0) {
			require.NoError(b, err)
			if seen += len(batch); seen == total {
				break
			}
		}
	}
	b.ReportMetric(float64(b.N*total)/b.Elapsed().Seconds(), "msg/s")
}

package projector

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// fleet is a log that registers n nodes over a number of label sets, after
// policies of which each node matches three.
func fleet(b *testing.B, n, sets int) *journal {
	j := &journal{}
	for i := range 60 {
		j.add(revise(b, 1_000_000+i, 1, 1000+i, 1000+i, 0, fmt.Sprintf("p%d", i), fmt.Sprintf("role=r%d", i%20), 80+i))
	}
	for i := range n {
		j.add(update(b, i+1, 1, fmt.Sprintf("n%d", i), "role", fmt.Sprintf("r%d", i%20), "set", fmt.Sprintf("s%d", i%sets)))
	}
	return j
}

func apply(b *testing.B, p *Projector, msgs []streams.Message) {
	for len(msgs) > 0 {
		n := min(500, len(msgs))
		require.NoError(b, p.Apply(msgs[:n]))
		msgs = msgs[n:]
	}
}

// BenchmarkRegister is the cost of one new node, folded in batches of 500.
func BenchmarkRegister(b *testing.B) {
	j := fleet(b, b.N, 50)
	p, err := Open(b.TempDir(), Options{Partitions: 64, Created: born})
	require.NoError(b, err)
	defer p.Close()
	b.ReportAllocs()
	b.ResetTimer()
	apply(b, p, j.msgs)
}

// BenchmarkRelabel is the cost of one label change, folded in batches of 500.
func BenchmarkRelabel(b *testing.B) {
	j := fleet(b, 10_000, 50)
	p, err := Open(b.TempDir(), Options{Partitions: 64, Created: born})
	require.NoError(b, err)
	defer p.Close()
	apply(b, p, j.msgs)
	done := len(j.msgs)
	for i := range b.N {
		j.add(update(b, 2_000_000+i, 1, fmt.Sprintf("n%d", i%10_000), "role", fmt.Sprintf("r%d", (i+i/10_000+1)%20), "set", fmt.Sprintf("s%d", i%50)))
	}
	b.ReportAllocs()
	b.ResetTimer()
	apply(b, p, j.msgs[done:])
}

// BenchmarkRevise is the cost of one revision of a policy that every node has:
// it should grow with the label sets, not with the nodes.
func BenchmarkRevise(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			if testing.Short() && n > 100_000 {
				b.Skip("a million nodes take a while to register")
			}
			j := fleet(b, n, 50)
			p, err := Open(b.TempDir(), Options{Partitions: 64, Created: born})
			require.NoError(b, err)
			defer p.Close()
			apply(b, p, j.msgs)
			require.NoError(b, p.Apply([]streams.Message{j.add(revise(b, 1, 1, 1, 1, 0, "all", "set", 1))}))
			head := 1
			var msgs []streams.Message
			for i := range b.N {
				e := revise(b, 3_000_000+i, 1, 1, 2+i, head, "all", "set", 2+i%1000)
				head = 2 + i
				msgs = append(msgs, j.add(policy.Event(e)))
			}
			// What registering the nodes left to do is not the revisions' cost.
			require.NoError(b, p.db.Compact(b.Context(), []byte{0}, []byte{0xff}, false))
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			for _, m := range msgs {
				require.NoError(b, p.Apply([]streams.Message{m}))
			}
		})
	}
}

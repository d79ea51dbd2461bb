package projector

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// BenchmarkAlone is the cost of one revision of a policy, and of one that is new, which
// 20,000 of a million nodes match. Each node has labels of its own.
func BenchmarkAlone(b *testing.B) {
	const nodes, sets = 1_000_000, 50
	j := &journal{}
	for i := range nodes {
		j.add(update(b, i+1, 1, fmt.Sprintf("n%d", i), "host", fmt.Sprintf("h%d", i), "set", fmt.Sprintf("s%d", i%sets)))
	}
	p, err := Open(b.TempDir(), Options{Partitions: 64, Created: born})
	require.NoError(b, err)
	defer p.Close()
	apply(b, p, j.msgs)
	p.Feed(forgetful{wanted: true})
	next := nodes
	revision := func(i, policy, parent int) int {
		next++
		j.add(revise(b, 5_000_000+next, 1, policy, next, parent, fmt.Sprintf("p%d", policy), fmt.Sprintf("set=s%d,!turn-%d", i%sets, policy), i%1000))
		return next
	}
	measure := func(name string, event func(i int)) {
		b.Run(name, func(b *testing.B) {
			done := len(j.msgs)
			for i := range b.N {
				event(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, m := range j.msgs[done:] {
				require.NoError(b, p.Apply([]streams.Message{m}))
			}
		})
	}
	measure("new", func(i int) { revision(i, next+1, 0) })
	var ids, heads [sets]int
	for i := range sets {
		ids[i] = next + 1
		heads[i] = revision(i, ids[i], 0)
	}
	apply(b, p, j.msgs[p.Applied():])
	measure("revised", func(i int) { heads[i%sets] = revision(i, ids[i%sets], heads[i%sets]) })
}

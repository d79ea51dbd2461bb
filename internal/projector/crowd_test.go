package projector

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// TestABatchThatWritesMuchIsWrittenInPieces: whoever reads waits for a piece,
// and the world does not depend on how it was cut.
func TestABatchThatWritesMuchIsWrittenInPieces(t *testing.T) {
	gen.Unraced()
	j := &journal{}
	const policies, nodes = 200, 300 // 60,000 edges of some 300 bytes
	for i := range policies {
		j.add(revise(t, 1_000_000+i, 1, 1000+i, 1000+i, 0, fmt.Sprintf("p%d", i), "role=web", 80+i))
	}
	for i := range nodes {
		j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i), "role", "web"))
	}
	var pieces []int
	open := func(m Metrics) *Projector {
		p, err := Open("store", Options{Partitions: testPartitions, Created: born, Metrics: m, fs: vfs.NewMem()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	p := open(Metrics{Folded: func(n int, _ float64) { pieces = append(pieces, n) }})
	told := listen(p)
	require.NoError(t, p.Apply(j.msgs))
	require.Greater(t, len(pieces), 1)
	sum := sumOf(pieces)
	require.Equal(t, policies+nodes, sum)
	require.EqualValues(t, sum, p.Applied())
	whole, err := p.Digest(t.Context())
	require.NoError(t, err)
	single := open(Metrics{})
	for i := range j.msgs {
		require.NoError(t, single.Apply(j.msgs[i:i+1]))
	}
	one, err := single.Digest(t.Context())
	require.NoError(t, err)
	require.Equal(t, one, whole)
	require.Len(t, told.batches, len(pieces))
	for i, b := range told.batches {
		require.Less(t, b.Size, 2*maxBatchBytes, "batch %d", i)
	}
	require.Len(t, told.take(t), policies*nodes)
}

func sumOf(ns []int) (sum int) {
	for _, n := range ns {
		sum += n
	}
	return sum
}

// BenchmarkRegisterCrowd is the cost of one new node that 300 policies match,
// while somebody listens, and while nobody does.
func BenchmarkRegisterCrowd(b *testing.B) {
	for _, wanted := range []bool{false, true} {
		b.Run(fmt.Sprintf("told=%t", wanted), func(b *testing.B) { registerCrowd(b, wanted) })
	}
}

// forgetful takes edges and drops them.
type forgetful struct{ wanted bool }

func (f forgetful) Wanted() bool { return f.wanted }
func (f forgetful) Take(Batch)   {}

func registerCrowd(b *testing.B, wanted bool) {
	j := &journal{}
	const policies = 300
	for i := range policies {
		j.add(revise(b, 1_000_000+i, 1, 1000+i, 1000+i, 0, fmt.Sprintf("p%d", i), "role=web", 80+i))
	}
	for i := range b.N {
		j.add(update(b, i+1, 1, fmt.Sprintf("n%d", i), "role", "web"))
	}
	p, err := Open(b.TempDir(), Options{Partitions: 64, Created: born})
	require.NoError(b, err)
	defer p.Close()
	p.Feed(forgetful{wanted})
	b.ReportAllocs()
	b.ResetTimer()
	for msgs := j.msgs; len(msgs) > 0; {
		n := min(200, len(msgs))
		require.NoError(b, p.Apply(msgs[:n]))
		msgs = msgs[n:]
	}
}

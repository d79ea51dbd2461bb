package projector

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
)

// cut deals a log out in batches of random length.
func cut(rt *rapid.T, msgs []streams.Message) (l cutLog) {
	for len(msgs) > 0 {
		n := rapid.IntRange(1, min(7, len(msgs))).Draw(rt, "batch")
		l.batches = append(l.batches, msgs[:n])
		msgs = msgs[n:]
	}
	return l
}

func (d disk) openBulk(t require.TestingT, events int) *Projector {
	p, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: d.fs, bulk: events})
	require.NoError(t, err)
	return p
}

// TestARebuildEqualsAFold takes a store on by turns in bulk and event by event,
// with restarts between, and holds it against one that only ever folded.
func TestARebuildEqualsAFold(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		log, events := drawLog(rt, rapid.IntRange(1, 80).Draw(rt, "events"))
		d := newDisk()
		p := d.openBulk(rt, rapid.IntRange(1, 30).Draw(rt, "bulk"))
		defer func() { require.NoError(rt, p.Close()) }()
		at := 0
		for at < len(log.msgs) {
			to := rapid.IntRange(at+1, len(log.msgs)).Draw(rt, "to")
			if rapid.Bool().Draw(rt, "in bulk") {
				require.NoError(rt, p.Rebuild(context.Background(), cut(rt, log.msgs), uint64(to)))
			} else {
				require.NoError(rt, p.Apply(log.msgs[:to]))
			}
			at = to
			require.Equal(rt, uint64(at), p.Applied())
			if rapid.Bool().Draw(rt, "restart") {
				before := summary(p)
				require.NoError(rt, p.Close())
				p = d.openBulk(rt, rapid.IntRange(1, 30).Draw(rt, "bulk"))
				require.Equal(rt, before, summary(p))
			}
		}
		o := newOracle()
		for _, e := range events {
			o.apply(e)
		}
		require.Equal(rt, o.rows(), rowsOf(p, nodeNames(31)))
		whole := newDisk().open(rt)
		defer func() { require.NoError(rt, whole.Close()) }()
		require.NoError(rt, whole.Apply(log.msgs))
		want, err := whole.Digest(context.Background())
		require.NoError(rt, err)
		got, err := p.Digest(context.Background())
		require.NoError(rt, err)
		require.Equal(rt, want, got)
		require.Equal(rt, whole.cursor.chain, p.cursor.chain)
	})
}

// TestARebuildThatIsCutOffGoesOn takes the power away at a random write of a
// rebuild. The store then stands at the end of a batch, and what is missing is
// folded as if nothing had been.
func TestARebuildThatIsCutOffGoesOn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, _ := drawLog(rt, rapid.IntRange(20, 60).Draw(rt, "events"))
		mem := vfs.NewCrashableMem()
		var cut atomic.Pointer[vfs.MemFS]
		var writes atomic.Int64
		at := rapid.Int64Range(1, 120).Draw(rt, "write")
		lost := rapid.SampledFrom([]int{0, 50, 100}).Draw(rt, "percent of unsynced data kept")
		seed := rapid.Uint64().Draw(rt, "seed")
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) == at {
				cut.Store(mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: lost, RNG: rand.New(rand.NewPCG(seed, 0))}))
			}
			return nil
		}))
		p := disk{fs}.openBulk(rt, 8)
		writes.Store(0)
		until := uint64(len(log.msgs))
		require.NoError(rt, p.Rebuild(context.Background(), cutLog{batches: [][]streams.Message{log.msgs}}, until))
		if cut.Load() == nil {
			cut.Store(mem.CrashClone(vfs.CrashCloneCfg{}))
			defer func() { require.Equal(rt, until, p.Applied()) }()
		}
		want, err := p.Digest(context.Background())
		require.NoError(rt, err)
		require.NoError(rt, p.Close())

		p = disk{cut.Load()}.openBulk(rt, 8)
		defer func() { require.NoError(rt, p.Close()) }()
		stood := p.Applied()
		require.True(rt, stood%8 == 0 || stood == until, "the end of a batch, not %d", stood)
		require.NoError(rt, p.Rebuild(context.Background(), cutLog{batches: [][]streams.Message{log.msgs}}, until))
		got, err := p.Digest(context.Background())
		require.NoError(rt, err)
		require.Equal(rt, want, got)
	})
}

package projector

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// killed is what is left of a store in memory whose process was killed: all that was
// written, synced or not.
func killed(mem *vfs.MemFS) disk {
	return disk{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})}
}

// TestAKilledFoldRemembersHowFarItHadCome has the log lose what came after the last
// flush, or have other events there.
func TestAKilledFoldRemembersHowFarItHadCome(t *testing.T) {
	mem := vfs.NewCrashableMem()
	p, j := disk{mem}.open(t), &journal{}
	for i := range 3 {
		j.add(update(t, i+1, 1, "a", "k", "v"))
	}
	require.NoError(t, p.Apply(j.msgs[:1]))
	require.NoError(t, p.flush())
	require.NoError(t, p.Apply(j.msgs))
	left := killed(mem)
	require.NoError(t, p.Close())

	p = left.open(t)
	require.Equal(t, uint64(1), p.Applied(), "the rest was not flushed")
	var other *OtherLogError
	require.ErrorAs(t, p.Verify(t.Context(), &journal{msgs: j.msgs[:2]}), &other)
	require.Equal(t, uint64(3), other.Seq)
	changed := &journal{msgs: append([]streams.Message(nil), j.msgs...)}
	changed.msgs[2].Body = j.msgs[0].Body
	require.True(t, errors.As(p.Verify(t.Context(), changed), &other))
	var damaged *streams.DamagedError
	require.ErrorAs(t, p.Apply(changed.msgs), &damaged)
	require.NoError(t, p.Close())

	p = left.open(t)
	require.NoError(t, p.Verify(t.Context(), j))
	require.NoError(t, p.Apply(j.msgs))
	require.Equal(t, uint64(3), p.Applied())
	require.NoError(t, p.Close())
}

// TestAHalfWrittenMarkIsNone cuts the later of both places off.
func TestAHalfWrittenMarkIsNone(t *testing.T) {
	b := make([]byte, 2*reachedPlace)
	copy(b, reached{created: 1, seq: 7}.append(nil))
	copy(b[reachedPlace:], reached{created: 1, seq: 8}.append(nil))
	require.EqualValues(t, 8, readReached(b).seq)
	b[reachedPlace+9]++
	require.EqualValues(t, 7, readReached(b).seq)
	b[9]++
	require.Zero(t, readReached(b))
	require.Zero(t, readReached(nil))
}

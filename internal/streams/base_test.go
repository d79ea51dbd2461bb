package streams

import (
	"testing"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABaseCountsTicksSinceTheEpoch(t *testing.T) {
	for at, want := range map[time.Time]uint64{
		time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC):               0,
		time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC):                  0,
		time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC):                  1024,
		time.Date(2026, 1, 1, 0, 0, 0, 999_999_999, time.UTC):        1023,
		time.Date(2126, 1, 1, 0, 0, 0, int(time.Second/2), time.UTC): 3155673600*1024 + 512,
	} {
		assert.Equal(t, want, baseAt(at), at)
	}
}

func TestALogIsBasedOnWhenItWasMade(t *testing.T) {
	c := embedded(t)
	before := baseAt(time.Now())
	l := openLog(t, c)
	assert.GreaterOrEqual(t, l.Base(), before)
	assert.LessOrEqual(t, l.Base(), baseAt(time.Now()))
	assert.Equal(t, l.Base(), openLog(t, c).Base())

	// A log of an older edict says nothing of a base.
	info, err := c.streamInfo(within(t), LogStream)
	require.NoError(t, err)
	cfg := info.Config
	delete(cfg.Metadata, metaBase)
	_, err = c.js.UpdateStream(within(t), cfg)
	require.NoError(t, err)
	assert.Equal(t, baseAt(l.Created()), openLog(t, c).Base())
}

func TestALogMadeAfterALossIsBasedAboveTheIdsOfTheOneBefore(t *testing.T) {
	far := policy.EndOf(baseAt(time.Now().Add(time.Hour)), 7)
	l, err := OpenLog(within(t), embedded(t), LogOptions{AboveID: far})
	require.NoError(t, err)
	assert.Greater(t, policy.NewEventID(l.Base(), l.First(), 0), far)
	_, ok := far.Seq(l.Base())
	assert.False(t, ok, "it is of another log")
}

func TestRebasePutsEveryEarlierIdBelowTheBase(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	other := openLog(t, c)
	seq, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	old := l.Base()
	for name, above := range map[string]policy.EventID{"the log's own": 0, "another's": policy.EndOf(old+1<<30, 5)} {
		t.Run(name, func(t *testing.T) {
			last := policy.EndOf(l.Base(), seq)
			require.NoError(t, l.Rebase(within(t), above))
			for _, id := range []policy.EventID{last, above} {
				_, ok := id.Seq(l.Base())
				assert.False(t, ok && id > 0, "%s is of an earlier log now", id)
			}
			assert.Equal(t, l.Base(), openLog(t, c).Base())
		})
	}
	assert.Equal(t, old, other.Base(), "who has it open goes on as before")
	assert.Equal(t, []uint64{seq}, sequences(collect(t, l.Follow(within(t), 0), 1)), "nothing else changed")
	require.Error(t, l.Rebase(within(t), policy.EndOf(MaxBase, 1)))
}

package projector

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhoResumesBetweenTwoBatchesSharesASnapshot: Pebble looks for a compaction at each
// that is closed.
func TestWhoResumesBetweenTwoBatchesSharesASnapshot(t *testing.T) {
	p := newDisk().openPast(t, 0, 0)
	j := &journal{}
	j.add(update(t, 1, 1, "n0", "role", "web"))
	j.add(revise(t, 2, 1, 1, 10, 0, "web", "role=web", 80))
	require.NoError(t, p.Apply(j.msgs))
	open := func() int { return p.db.Metrics().Snapshots.Count }
	forgetPayloads := func() { p.payloads.young, p.payloads.old = nil, nil }

	_, missing, first, err := p.past("n0", 0, nil)
	require.NoError(t, err)
	require.Len(t, missing, 1)
	_, _, second, err := p.past("n0", 0, nil)
	require.NoError(t, err)
	require.Equal(t, 1, open())
	require.NoError(t, first.Close())

	j.add(revise(t, 3, 1, 1, 11, 10, "web", "role=web", 81))
	require.NoError(t, p.Apply(j.msgs[2:]))
	require.Equal(t, 1, open(), "who reads it keeps it")
	b, err := payload(second, p.state.policies[pol(1)].fp)
	require.Error(t, err, "it is of its own moment: %s", b)
	require.NoError(t, second.Close())
	require.Zero(t, open())

	for range 3 {
		forgetPayloads()
		past, err := p.Past("n0", 0, nil)
		require.NoError(t, err)
		require.Contains(t, string(past.Items[0].Payload), "81")
		require.Equal(t, 1, open())
	}
	require.NoError(t, p.Close())
}

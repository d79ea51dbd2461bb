package projector

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLastEventsOfANodeAreKnownAgain sends an event again after fewer newer ones
// than are remembered, and after as many, before and after the store is opened again.
func TestTheLastEventsOfANodeAreKnownAgain(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	apply := func(event int, want string) {
		t.Helper()
		require.Equal(t, want, verdict(t, p, j.add(update(t, event, 1, "a", "k", fmt.Sprint(event)))))
	}
	for i := range recentEvents + 1 {
		apply(i+1, "applied")
	}
	apply(1, CodeStaleEvent)
	p = sameAfterReload(t, d, p)
	apply(1, CodeStaleEvent)
	apply(recentEvents+1, "duplicate")
	apply(recentEvents+2, "applied")
	apply(2, CodeStaleEvent)
	p = sameAfterReload(t, d, p)
	defer p.Close()
	apply(1, "applied")
	require.Zero(t, count(t, p, keyApplied), "nothing in the store grows with what a node was told")
}

// TestWhatIsRememberedOfANodeIsBounded lets one removal come again and again.
func TestWhatIsRememberedOfANodeIsBounded(t *testing.T) {
	p, j := openFresh(t), &journal{}
	require.Equal(t, "applied", verdict(t, p, j.add(update(t, 1, 1, "a"))))
	require.Equal(t, "applied", verdict(t, p, j.add(leave(2, 1, "a"))))
	for range 3 * recentEvents {
		require.Equal(t, "duplicate", verdict(t, p, j.add(leave(3, 1, "a"))))
		require.Equal(t, "duplicate", verdict(t, p, j.add(leave(2, 1, "a"))))
	}
	require.Equal(t, CodeStaleEvent, verdict(t, p, j.add(update(t, 1, 1, "a"))), "they push nothing out")
	require.Len(t, p.state.nodes["a"].recent, 2)
}

package projector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Events that come one by one are folded at once; of many, some wait for each
// other, unless they came together already.
func TestOnlyABusyLogIsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gathering{since: time.Now()}
		waits := func(n int) time.Duration {
			began := time.Now()
			g.after(t.Context(), n)
			return time.Since(began)
		}
		// comes is a log that takes an event at each pause, whether or not the fold waits.
		comes := func(pause time.Duration) (waited time.Duration) {
			for range 1000 {
				time.Sleep(pause)
				waited = waits(1 + int(waited/pause))
			}
			return waited
		}
		require.Zero(t, comes(time.Millisecond))
		require.Equal(t, gatherFor, comes(time.Millisecond/50))
		require.Zero(t, waits(gatherBelow))
		require.Zero(t, comes(time.Millisecond))
	})
}

package plane

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFoldIsBusyWhileManyEventsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var applied atomic.Uint64
		changed := make(chan struct{}, 1)
		var said []bool
		ended := make(chan error)
		go func() {
			ended <- watchBusy(ctx, applied.Load, func() <-chan struct{} { return changed }, func(busy bool) { said = append(said, busy) })
		}()
		fold := func(events uint64) {
			applied.Add(events)
			select {
			case changed <- struct{}{}:
			default:
			}
			time.Sleep(busyLook)
			synctest.Wait()
		}
		for range 50 {
			fold(busyEvents / 2)
		}
		require.Empty(t, said, "a few are no reason")
		for range 5 {
			fold(2 * busyEvents)
		}
		require.Equal(t, []bool{true}, said)
		for range quietLooks / 2 {
			fold(1)
		}
		fold(2 * busyEvents)
		for range quietLooks - 1 {
			fold(0)
		}
		require.Equal(t, []bool{true}, said, "a pause is no end")
		fold(0)
		require.Equal(t, []bool{true, false}, said)
		stop()
		require.NoError(t, <-ended)
	})
}

package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryStreamIsLookedAtOnceARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds
		looks := make([]int, 100)
		var leave []func()
		for i := range looks {
			leave = append(leave, r.join(func() bool { looks[i]++; return true }))
			time.Sleep(37 * time.Millisecond) // they come at any moment of a round
		}
		clear(looks)
		for range 3 {
			time.Sleep(standEvery)
		}
		synctest.Wait()
		for i, n := range looks {
			require.Equal(t, 3, n, "stream %d", i)
		}
		for _, l := range leave {
			l()
			l() // twice is once
		}
		clear(looks)
		time.Sleep(2 * standEvery)
		require.NotContains(t, looks, 1, "who left is not looked at")
	})
}

func TestAStreamIsNotLookedAtAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds
		n, other := 0, 0
		leave := r.join(func() bool { n++; return false })
		time.Sleep(standEvery)
		synctest.Wait()
		require.Equal(t, 1, n, "within a round of its beginning")
		leaveOther := r.join(func() bool { other++; return true })
		time.Sleep(2 * standEvery)
		synctest.Wait()
		leave()
		require.Equal(t, 1, n)
		require.Equal(t, 2, other)
		leaveOther()
	})
}

// A bubble ends only once its timers are over: without streams there is none.
func TestWithoutStreamsNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds
		for range 3 { // and it begins again, by one timer
			n := 0
			leave := r.join(func() bool { n++; return true })
			r.join(func() bool { return true })()
			time.Sleep(2 * standEvery)
			synctest.Wait()
			require.Equal(t, 2, n)
			leave()
			time.Sleep(standEvery)
			synctest.Wait()
			r.mu.Lock()
			runs := r.runs
			r.mu.Unlock()
			require.False(t, runs)
		}
	})
}

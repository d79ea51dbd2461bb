package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/backoff"
)

// TestAPauseGrowsToItsBound has each pause lie between half and all of a length that
// doubles.
func TestAPauseGrowsToItsBound(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name    string
		b       backoff.Backoff
		lengths []time.Duration
	}{
		{"the zero value", backoff.Backoff{}, []time.Duration{25 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms}},
		{"with bounds", backoff.Backoff{Least: 100 * ms, Most: 300 * ms}, []time.Duration{100 * ms, 200 * ms, 300 * ms, 300 * ms}},
		{"one that is longer than the bound", backoff.Backoff{Least: 5000 * ms}, []time.Duration{5000 * ms, 5000 * ms}},
		{"one that does not grow", backoff.Steady(250 * ms), []time.Duration{250 * ms, 250 * ms, 250 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 200 {
				for i, length := range c.lengths {
					got := c.b.Next()
					require.GreaterOrEqual(t, got, length/2, "pause %d", i)
					require.LessOrEqual(t, got, length, "pause %d", i)
				}
				c.b.Reset()
			}
		})
	}
}

// TestTwoThatFailedTogetherComeBackApart has equal pauses be rare.
func TestTwoThatFailedTogetherComeBackApart(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		b := backoff.Backoff{Least: time.Second}
		seen[b.Next()] = true
	}
	require.Greater(t, len(seen), 90)
}

func TestWhatWasAskedForIsNotCutShort(t *testing.T) {
	for range 200 {
		got := backoff.AtLeast(time.Second)
		require.GreaterOrEqual(t, got, time.Second)
		require.LessOrEqual(t, got, 1250*time.Millisecond)
	}
	require.Zero(t, backoff.AtLeast(0))
}

func TestAPauseIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{Least: time.Minute, Most: time.Hour}
		began := time.Now()
		require.NoError(t, b.Pause(t.Context()))
		require.GreaterOrEqual(t, time.Since(began), 30*time.Second)
		require.LessOrEqual(t, time.Since(began), time.Minute)
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		b := backoff.Steady(time.Hour)
		require.ErrorIs(t, b.Pause(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, backoff.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.NoError(t, backoff.Sleep(ctx, 0), "nothing to wait for")
	})
}

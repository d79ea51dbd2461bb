//go:build linux

package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatWasNotConfirmedForTooLongIsStale(t *testing.T) {
	confirmed := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Status{State: StateCurrent, ConfirmedAt: confirmed, MaxAgeSeconds: 300}
	for after, want := range map[time.Duration]State{
		0: StateCurrent, 5 * time.Minute: StateCurrent, 5*time.Minute + 1: StateStale,
		-time.Second: StateCurrent, -time.Hour: StateStale, // the clock was set back
	} {
		require.Equal(t, want, s.At(confirmed.Add(after)).State, after)
	}
	s.State = StatePolling
	require.Equal(t, StatePolling, s.At(confirmed).State)
	require.Equal(t, StateStale, s.At(confirmed.Add(time.Hour)).State)
	s.State = StateCurrent
	s.ConfirmedAt = time.Time{}
	require.Equal(t, StateStale, s.At(confirmed).State, "it never was")
}

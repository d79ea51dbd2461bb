//go:build linux

package agent

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

// A server may write megabytes into an error, at each look.
func TestAnErrorIsKeptAsFarAsSomebodyReadsIt(t *testing.T) {
	var s Status
	s.fail(errors.New("it was " + strings.Repeat("ü", maxError)))
	require.Less(t, len(s.Error), maxError+len(" …")+1)
	require.True(t, utf8.ValidString(s.Error))
	require.Contains(t, s.Error, "it was ü")
	s.fail(errors.New("short"))
	require.Equal(t, "short", s.Error)
}

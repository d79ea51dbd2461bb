package convergence

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// take takes a sample so many seconds after the beginning.
func take(t *testing.T, m *Monitor, second int) {
	t.Helper()
	require.NoError(t, m.Take(t.Context(), at(1).Add(time.Duration(second)*time.Second)))
}

func TestAMonitorKeepsAnHour(t *testing.T) {
	w, streams := newWorld(t, 0), 2
	m := NewMonitor(w.tracker(), func() int { return streams })
	require.Empty(t, m.History())
	take(t, m, 0)
	w.put("n1", "a")
	take(t, m, 3)
	require.Equal(t, []Sample{{Time: at(1), Streams: 2}}, m.History(), "one each ten seconds")
	take(t, m, 10)
	require.Equal(t, Sample{Time: at(11), Head: 1, Applied: 1, Counts: Counts{StateApplied: 1}, Streams: 2}, m.History()[1])
	for i := 2; i < 400; i++ {
		take(t, m, 10*i)
	}
	all := m.History()
	require.Len(t, all, 360)
	require.Equal(t, at(1+3990), all[359].Time)
	require.Equal(t, at(1+400), all[0].Time)
}

func TestAWatchIsSentWhatChanged(t *testing.T) {
	w, streams := newWorld(t, 0), 0
	m := NewMonitor(w.tracker(), func() int { return streams })
	x := m.Watch()
	defer x.Close()
	require.True(t, m.due(at(1)))
	take(t, m, 0)
	take(t, m, 1)
	s, err := x.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, at(1), s.Time, "nothing but the time is another")
	require.True(t, m.due(at(2)), "somebody follows")
	require.False(t, w.later(t, x), "there is no news")
	streams = 1
	take(t, m, 2)
	w.put("n1", "a")
	take(t, m, 3)
	s, err = x.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]any{1, at(4)}, [2]any{s.Streams, s.Time}, "who is slow hears the last")
	require.Equal(t, 1, s.Counts.Nodes())
	other := m.Watch()
	again, err := other.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, s, again, "at once")
	other.Close()
}

// later reports whether there is a sample now.
func (w *world) later(t *testing.T, x *Watch) bool {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := x.Next(ctx)
	return err == nil
}

func TestAMonitorTakesSamplesOnlyWhenTheyAreWanted(t *testing.T) {
	w := newWorld(t, 0)
	tracker := w.tracker()
	synctest.Test(t, func(t *testing.T) {
		m := NewMonitor(tracker, func() int { return 0 })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(25*time.Second + soonest/2)
		synctest.Wait()
		require.Len(t, m.History(), 3)
		x := m.Watch()
		_, err := x.Next(ctx)
		require.NoError(t, err)
		x.Close()
		stop()
		require.NoError(t, <-ended)
	})
}

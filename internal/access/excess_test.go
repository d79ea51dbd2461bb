package access

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/output"
)

// sends has so many events of a project not be applied, now.
func sends(x *Excess, project uuid.UUID, n int, perSecond uint64) {
	for range n {
		x.Unapplied(project, perSecond, x.clock())
	}
}

func TestWhoGoesOnSendingTooMuchIsShutOutForLongerEachTime(t *testing.T) {
	now, log := time.Unix(1_800_000_000, 0), new(output.Buffer)
	x := NewExcess(slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return now })
	loud, quiet := uuid.New(), uuid.New()
	sends(x, quiet, excessBurst, 20)
	require.Zero(t, x.Until(quiet))
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		sends(x, loud, excessBurst, 20)
		require.Zero(t, x.Until(loud), "so many are nobody's business")
		require.Empty(t, x.Shut())
		sends(x, loud, 1+10*excessBurst, 20) // with those that were under way
		require.Equal(t, now.Add(want*time.Second), x.Until(loud))
		require.Equal(t, map[uuid.UUID]time.Time{loud: x.Until(loud)}, x.Projects())
		<-x.Shut()
		now = x.Until(loud)
		require.Zero(t, x.Until(loud))
	}
	require.Equal(t, 10, strings.Count(log.String(), "shuts its producers out"), "it is said once each time")
	require.Zero(t, x.Until(quiet))

	now = now.Add(shutOutForgiven + time.Second)
	sends(x, loud, excessBurst+1, 20)
	require.Equal(t, now.Add(firstShutOut), x.Until(loud), "who kept to it begins again")
}

func TestWhoSendsALittleTooMuchIsLetBe(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	x := NewExcess(slog.New(slog.DiscardHandler), func() time.Time { return now })
	project := uuid.New()
	for range 100 {
		sends(x, project, excessBurst/20, 20)
		now = now.Add(excessForgotten / 20)
	}
	require.Zero(t, x.Until(project))

	sends(x, project, 5000, 5000)
	require.Zero(t, x.Until(project), "as many as its quota lets pass in a second")

	for range 10 * excessBurst {
		x.Unapplied(uuid.Nil, 1, now.Add(-excessFresh-time.Second))
	}
	require.Empty(t, x.Projects(), "a start folds the past")

	for range excessBurst + 1 {
		x.Overflow(project)
	}
	require.Contains(t, x.Projects(), project)

	now = now.Add(2 * shutOutForgiven)
	sends(x, uuid.New(), 1, 1)
	require.Len(t, x.of, 1, "it is forgotten")
	require.Zero(t, (*Excess)(nil).Until(project))
}

// TestWhoStopsLeavesNobodyWaiting: who is shut out waits for its answer, but not for a worker
// that ends.
func TestWhoStopsLeavesNobodyWaiting(t *testing.T) {
	now, loud := time.Unix(1_800_000_000, 0), uuid.New()
	x := NewExcess(slog.New(slog.DiscardHandler), func() time.Time { return now })
	r := &Registry{opt: Options{Excess: x, Clock: x.clock}}
	p := &Principal{projects: map[uuid.UUID]bits{loud: operator}}
	require.False(t, r.hold(p), "it is not shut out")
	sends(x, loud, excessBurst+1, 20)
	x.Stop()
	x.Stop()
	require.False(t, r.hold(p))
}

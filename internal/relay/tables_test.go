package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// stopped is what a loop asks first of all. The first time it takes an hour: the
// process was stopped, and goes on.
type stopped struct {
	Store
	TableWatch
	Listeners
	asked int
	again func()
	due   chan struct{}
}

func (s *stopped) ask() {
	if s.asked++; s.asked == 1 {
		time.Sleep(time.Hour)
		s.due <- struct{}{}
		return
	}
	s.again()
}

func (s *stopped) Changed() <-chan struct{} { return nil }
func (s *stopped) Due() <-chan struct{}     { return s.due }

func (s *stopped) Look(context.Context) (uint64, []policy.NodeID, []policy.NodeID, error) {
	s.ask()
	return 0, nil, nil, nil
}

func (s *stopped) Roster() uint64 {
	s.ask()
	return 0
}

func (s *stopped) Changes() uint64                     { return 0 }
func (s *stopped) Who() (map[policy.NodeID]bool, bool) { return nil, false }

// TestAProcessThatWasStoppedDoesNotRestAsLong: who listens hears of tables soon
// after it goes on, and others of how far it has published.
func TestAProcessThatWasStoppedDoesNotRestAsLong(t *testing.T) {
	for name, loop := range map[string]func(*stopped, context.Context) error{
		"looking at tables": func(s *stopped, ctx context.Context) error {
			return (&Relay{store: s, opt: Options{Tables: s}, hub: &hub{}}).watchTables(ctx)
		},
		"following who listens": func(s *stopped, ctx context.Context) error {
			return (&publisher{store: s, opt: PublishOptions{Listeners: s}}).followTables(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour+maxRest+time.Second)
				defer cancel()
				s := stopped{again: cancel, due: make(chan struct{}, 1)}
				require.NoError(t, loop(&s, ctx))
				require.Greater(t, s.asked, 1, "it goes on before long")
			})
		})
	}
}

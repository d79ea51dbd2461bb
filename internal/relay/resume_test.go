package relay

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Clients that give up come back at once, and would find their own dead requests
// before them in the line.
func TestWhoGaveUpReadsNoPast(t *testing.T) {
	r := &Relay{turns: make(chan struct{}, 1)} // it has no store: who reads panics
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 {
		_, err := r.past(ctx, "n1", 0, func(uint64, projector.NodeRef) { t.Error("it joined") })
		require.ErrorIs(t, err, context.Canceled)
	}
}

// The leader that is asked may have been replaced without its knowledge: its log ends
// before the client's id, and that of the others does not.
func TestAnEndBelowAClientsIDIsMadeSureOf(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.revise(1, "role=web", 1)
	var g *stage
	var asked atomic.Uint64
	g = newStage(t, log, Options{
		Head: func(context.Context) (uint64, error) { return 1, nil },
		Reached: func(_ context.Context, seq uint64) (uint64, error) {
			asked.Store(seq)
			g.play()
			return 3, nil
		},
	})
	g.play()
	log.revise(2, "role=web", 1)
	came := g.open("a", log.idOf(2).String(), "")
	require.Equal(t, uint64(3), asked.Load())
	log.revise(3, "role=web", 1)
	g.play()
	require.Equal(t, log.idOf(3), came.next().ID, "it is not asked to pull what is older")

	beyond := g.open("a", policy.EndOf(stageBase, 9).String(), "")
	require.Equal(t, uint64(9), asked.Load())
	require.Equal(t, "resync", beyond.next().Payload.Reason, "it is asked to when that is sure")
}

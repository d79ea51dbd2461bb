package relay

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
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

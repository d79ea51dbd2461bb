package plane

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// TestTheWitnessIsLengthenedWhileItIsOpenedAgain: one part of a plane appends to
// it, another opens the one that is there now.
func TestTheWitnessIsLengthenedWhileItIsOpenedAgain(t *testing.T) {
	p, err := Open(t.Context(), Options{Data: t.TempDir(), NoAPI: true, NATSListen: "none", Relaxed: true, Announce: []int{}})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.stream.PublishAll(t.Context(), nodes(1, 3))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	folded := make(chan error, 1)
	go func() { folded <- p.store.Run(ctx, p.stream) }()
	defer func() { cancel(); require.NoError(t, <-folded) }()
	require.NoError(t, p.store.Wait(ctx, 3))
	_, was, _ := p.witness.end()

	opened := make(chan struct{})
	go func() { defer close(opened); p.reopenWitness(ctx) }()
	for open := true; open; {
		select {
		case <-opened:
			open = false
		default:
		}
		// The head is witnessed again and again.
		p.witness.mu.Lock()
		p.witness.last = streams.Link{}
		p.witness.mu.Unlock()
		_ = p.append(ctx, true) // another entry may be there
	}
	_, now, _ := p.witness.end()
	require.Greater(t, now, was)
}

package projector

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// impatient is a context that ends when it has been asked so many times.
type impatient struct {
	context.Context
	asked, ends int
}

func (c *impatient) Err() error {
	if c.asked++; c.asked >= c.ends {
		return context.Canceled
	}
	return nil
}

// The fold waits while the rows of label sets are derived, so that, too, ends with
// whoever asked for it, and leaves nothing open.
func TestADigestThatNobodyWaitsForEndsAmongItsLabelSets(t *testing.T) {
	p := openFresh(t)
	j := &journal{}
	for i := range 20 {
		j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i), "role", fmt.Sprintf("r%d", i)))
	}
	require.NoError(t, p.Apply(j.msgs))
	ctx := &impatient{t.Context(), 0, 10}
	_, err := p.Digest(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 10, ctx.asked)
	p.mu.RLock()
	d, err := p.digester(&impatient{t.Context(), 0, 10})
	p.mu.RUnlock()
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, d.snap)
}

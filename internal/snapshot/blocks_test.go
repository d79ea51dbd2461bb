package snapshot

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// A whole fleet that asks for its states at once gets them, although few may wait for
// tables.
func TestAFleetGetsItsBlocksAtOnce(t *testing.T) {
	const nodes = 60
	w := newTown(t)
	r := policy.Revision{ID: uuid.New(), Selector: wallsOf(0).Selector, Order: policy.Order{Tier: policy.Admin}, Rules: wallsOf(40).Rules}
	w.fold(policy.RevisionCreated{ID: uuid.New(), Project: uuid.UUID{1}, Policy: uuid.New(), Slug: "walls", DisplayName: "walls", Revision: r})
	for i := range nodes {
		w.node(1, fmt.Sprint("n", i), fmt.Sprintf("10.0.0.%d", i))
	}
	blocks := NewBlocks(NewTables(w.p, TableOptions{Waiting: 1}))
	var all sync.WaitGroup
	errs := make([]error, nodes)
	for i := range nodes {
		all.Go(func() {
			s, resolved, err := blocks.Of(t.Context(), policy.NodeID(fmt.Sprint("n", i)))
			if errs[i] = err; err == nil && (!resolved || len(s.Body) == 0) {
				errs[i] = fmt.Errorf("n%d: resolved %t, %d bytes", i, resolved, len(s.Body))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

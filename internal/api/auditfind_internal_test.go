package api

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// Who searches the audit reads up to 20,000 events for an answer that may have none. However many
// do, the plane has the rest of its time for others; a page of all events waits for no search.
func TestFewSearchTheAuditAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		reading, calls := 0, 0
		more := make(chan struct{})
		h := &auditHandlers{looked: maxAudited, searching: semaphore.NewWeighted(maxSearching), trail: func(context.Context, uint64, int) ([]Trailed, error) {
			mu.Lock()
			reading, calls = reading+1, calls+1
			mu.Unlock()
			<-more
			mu.Lock()
			reading--
			mu.Unlock()
			return nil, nil
		}}
		var all sync.WaitGroup
		search := func(q auditQuery) {
			all.Go(func() {
				_, _, err := h.find(t.Context(), q)
				require.NoError(t, err)
			})
		}
		for range 8 {
			search(auditQuery{before: 10, limit: 5, principal: "ana"})
		}
		synctest.Wait()
		require.Equal(t, maxSearching, reading)
		search(auditQuery{before: 10, limit: 5})
		synctest.Wait()
		require.Equal(t, maxSearching+1, reading)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := h.find(gone, auditQuery{before: 10, limit: 5, kind: "node_updated"})
		require.ErrorIs(t, err, context.Canceled)
		close(more)
		all.Wait()
		require.Equal(t, 9, calls)
	})
}

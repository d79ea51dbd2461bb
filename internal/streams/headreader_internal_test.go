package streams

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// gatedLog answers a read of its head when the gate lets it.
type gatedLog struct {
	gate  chan uint64
	reads int
}

func (l *gatedLog) Head(ctx context.Context) (uint64, error) {
	l.reads++
	select {
	case s := <-l.gate:
		return s, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// A thousand nodes that pull while a read is under way share the next one:
// theirs began after they came, the one under way did not.
func TestRequestsShareTheReadThatBeginsAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &gatedLog{gate: make(chan uint64)}
		h := &headReader{read: log.Head}
		heads := make(chan uint64, 1001)
		last := func() {
			n, err := h.last(t.Context())
			require.NoError(t, err)
			heads <- n
		}
		go last()
		synctest.Wait()
		for range 1000 {
			go last()
		}
		synctest.Wait()
		log.gate <- 1
		require.Equal(t, uint64(1), <-heads)
		synctest.Wait()
		require.Empty(t, heads, "the others came after that read began")
		log.gate <- 2
		for range 1000 {
			require.Equal(t, uint64(2), <-heads)
		}
		synctest.Wait()
		require.Equal(t, 2, log.reads)
	})
}

func TestWhoeverLeavesLeavesTheReadToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &gatedLog{gate: make(chan uint64)}
		h := &headReader{read: log.Head}
		ctx, leave := context.WithCancel(t.Context())
		gone, stays := make(chan error, 1), make(chan uint64, 1)
		go func() { _, err := h.last(ctx); gone <- err }()
		synctest.Wait()
		go func() { n, _ := h.last(t.Context()); stays <- n }()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-gone, context.Canceled)
		log.gate <- 1
		log.gate <- 2
		require.Equal(t, uint64(2), <-stays)
	})
}

// A log that does not answer must not keep a reader for good.
func TestAReadOfTheHeadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &headReader{read: (&gatedLog{gate: make(chan uint64)}).Head}
		_, err := h.last(t.Context())
		require.True(t, errors.Is(err, context.DeadlineExceeded))
	})
}

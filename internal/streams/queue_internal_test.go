package streams

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader that is slower than the server never finds its queue empty.
func TestNothingIsReadAfterTheEndOfAContext(t *testing.T) {
	q := newQueue(t.Context(), 0, followBuffer)
	defer q.close()
	q.msgs, q.bytes = []Message{{Seq: 1}, {Seq: 2}}, followBytes
	ctx, end := context.WithCancel(t.Context())
	end()
	f := follower{next: 1}
	_, err := f.drain(ctx, nil, q, func([]Message, error) bool {
		t.Error("a message is yielded after the end")
		return false
	})
	require.ErrorIs(t, err, context.Canceled)
}

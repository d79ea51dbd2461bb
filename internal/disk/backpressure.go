package disk

import (
	"context"
	"iter"

	"github.com/edictdev/edict/internal/streams"
)

// BackpressuredLog is the log as the fold follows it: no further than the disk
// allows. A read model whose writes wait takes more only until its memory is
// full, and would hold up its readers then.
type BackpressuredLog struct {
	*streams.Log
	Guard *Guard
}

// Follow yields what the log yields, each batch when the read model waits for no
// space.
func (l BackpressuredLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for msgs, err := range l.Log.Follow(ctx, from) {
			l.Guard.await(ctx)
			if ctx.Err() != nil || !yield(msgs, err) {
				return
			}
		}
	}
}

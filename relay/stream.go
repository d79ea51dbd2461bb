package relay

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/edictdev/edict/streams"
)

// Stream is what the relay asks of the node stream; *streams.Nodes is one.
// What the methods promise is said there.
type Stream interface {
	First() uint64
	TombstoneTTL() time.Duration
	MaxBatch() int
	MaxMessage() int
	State(ctx context.Context) (streams.State, error)
	PublishBatch(ctx context.Context, msgs []streams.Outgoing) (first uint64, err error)
	Last(ctx context.Context, from uint64, filters ...string) (msgs []streams.Message, upTo uint64, err error)
	Read(ctx context.Context, from, to uint64, filters ...string) iter.Seq2[[]streams.Message, error]
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}

// Open opens the node stream, or makes it when there is none: then above the
// last sequence this process knows of. It is called at the start of Run and
// again whenever the stream turns out to have been remade.
type Open func(ctx context.Context, above uint64) (Stream, error)

// NodeStream is an Open of the plane's node stream. One that was made for
// another log is derived from nothing that is left, and is made anew.
func NodeStream(c *streams.Conn, opt streams.NodesOptions) Open {
	return func(ctx context.Context, above uint64) (Stream, error) {
		opt.Above = max(opt.Above, above)
		n, _, err := streams.OpenNodes(ctx, c, opt)
		var other *streams.OtherLogError
		if errors.As(err, &other) {
			n, _, err = streams.RemakeNodes(ctx, c, opt, other.First)
		}
		if err != nil {
			return nil, err
		}
		return n, nil
	}
}

// Subjects of the node stream that no single node or partition owns.
const (
	allNodes  = "edict.node.>"
	allFences = "edict.fence.*"
	allDays   = "edict.mark.day.*"
	allSyncs  = "edict.mark.sync.*" // and all table marks

	nodePrefix  = "edict.node."
	fencePrefix = "edict.fence."
	dayPrefix   = "edict.mark.day."
	syncPrefix  = "edict.mark.sync."
	tablePrefix = syncPrefix + "table-"
)

package relay

import (
	"context"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Wire carries plain messages on core NATS; *streams.Conn is one.
type Wire interface {
	// Tell publishes a message that nobody acknowledges. header is not kept.
	Tell(subject string, header map[string][]string, body []byte) error
	// TellStream is Tell that waits until a stream has stored it, and so whatever was
	// told before.
	TellStream(ctx context.Context, subject string, header map[string][]string, body []byte) error
	// Flush returns when the server has all that was told since the connection
	// had been lost so often, or an error when it may not have.
	Flush(ctx context.Context, lost uint64) error
	// Reconnects is how often the connection was lost.
	Reconnects() uint64
	// MaxPayload is the most bytes of a message, headers included.
	MaxPayload() int
	// Serve answers requests; of all processes that serve a subject one gets each.
	Serve(ctx context.Context, subject string, f func(subject string, body []byte, reply func(header map[string][]string, body []byte) error)) error
}

// Listeners says who listens on NATS; *streams.Listeners does. It may think of
// somebody who is gone, and never forgets one who is there.
type Listeners interface {
	Run(ctx context.Context) error
	// None reports that nobody listens for any node.
	None() bool
	// Any reports whether somebody may listen on a subject of a node.
	Any(node policy.NodeID, subject string) bool
	// Everybody reports that somebody may listen for every node.
	Everybody() bool
	// Who are the nodes that somebody listens for; all: or any.
	Who() (nodes map[policy.NodeID]bool, all bool)
	// Changes is another number whenever Who or Enforces may have changed.
	Changes() uint64
	// Streams reports whether a stream takes in what is published.
	Streams() bool
	// Enforces reports whether the reader of a node is known to enforce tables.
	Enforces(node policy.NodeID) bool
	// Fresh takes who was found to listen since; Wake has something when it has.
	Fresh() streams.Fresh
	Wake() <-chan struct{}
}

// PublishOptions say what is published on NATS. The zero value publishes
// nothing and answers no replay.
type PublishOptions struct {
	Wire      Wire
	Listeners Listeners // nil: everybody may listen
	Share     Share     // whose partitions are published here; nil: none
	// Marks is up to where a partition is known to be published by whoever had it
	// before; not ok: it is not known. nil: it never is.
	Marks func(partition int) (seq uint64, ok bool)
}

// everybody listens.
type everybody struct{}

func (everybody) Run(ctx context.Context) error  { <-ctx.Done(); return nil }
func (everybody) None() bool                     { return false }
func (everybody) Any(policy.NodeID, string) bool { return true }
func (everybody) Everybody() bool                { return true }
func (everybody) Changes() uint64                { return 0 }

func (everybody) Who() (map[policy.NodeID]bool, bool) { return nil, true }
func (everybody) Streams() bool                       { return false }
func (everybody) Enforces(policy.NodeID) bool         { return false }
func (everybody) Fresh() streams.Fresh                { return streams.Fresh{} }
func (everybody) Wake() <-chan struct{}               { return nil }

package relay

import (
	"context"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Wire carries plain messages on core NATS; *streams.Conn is one.
type Wire interface {
	// Tell publishes a message without an acknowledgement. header is not kept.
	Tell(subject string, header map[string][]string, body []byte) error
	// TellStream is Tell that waits until a stream has stored the message, and with it
	// all messages before.
	TellStream(ctx context.Context, subject string, header map[string][]string, body []byte) error
	// Flush returns when the server has received all messages, or an error if some may
	// be lost because Reconnects is no longer lost.
	Flush(ctx context.Context, lost uint64) error
	// Reconnects is how often the connection was lost.
	Reconnects() uint64
	// MaxPayload is the most bytes of a message, headers included.
	MaxPayload() int
	// Serve answers requests. Of all processes that serve a subject, one gets each
	// request. It calls serving before the first: what this connection subscribes to
	// from then on reaches the server after the subscription for requests.
	Serve(ctx context.Context, subject string, serving func(), f func(subject string, body []byte, reply func(header map[string][]string, body []byte) error)) error
}

// Listeners is who is subscribed on NATS; *streams.Listeners is one. It may still have
// a subscription that has ended, but does not lack one that exists.
type Listeners interface {
	Run(ctx context.Context) error
	// None reports that nobody is subscribed for any node.
	None() bool
	// Any reports whether somebody may be subscribed to a subject of a node.
	Any(node policy.NodeID, subject string) bool
	// Everybody reports that somebody may be subscribed for every node.
	Everybody() bool
	// Who returns the nodes that somebody is subscribed for; all: it may be any node.
	Who() (nodes map[policy.NodeID]bool, all bool)
	// Changes is another number whenever Who or Enforces may have changed.
	Changes() uint64
	// Stored reports whether a JetStream stream takes in what is published on a subject.
	Stored(subject string) bool
	// Enforces reports whether the reader of a node is known to enforce tables.
	Enforces(node policy.NodeID) bool
	// Fresh takes the subscriptions that are new since its last call; Wake receives when
	// there are some.
	Fresh() streams.Fresh
	Wake() <-chan struct{}
}

// PublishOptions is what is published on NATS. The zero value publishes nothing and
// answers no replay request.
type PublishOptions struct {
	Wire      Wire
	Listeners Listeners // nil: somebody may be subscribed for every node
	Share     Share     // the partitions that are published here; nil: none
	// Marks is up to where a partition is known to be published by the worker that had
	// it before. ok is false if that is not known; nil: it is not known of any.
	Marks func(partition int) (seq uint64, ok bool)
	Ahead int // messages that a core may publish before a stream has stored them; 0: 1,000
}

// everybody is Listeners for which anybody may be subscribed.
type everybody struct{}

func (everybody) Run(ctx context.Context) error  { <-ctx.Done(); return nil }
func (everybody) None() bool                     { return false }
func (everybody) Any(policy.NodeID, string) bool { return true }
func (everybody) Everybody() bool                { return true }
func (everybody) Changes() uint64                { return 0 }

func (everybody) Who() (map[policy.NodeID]bool, bool) { return nil, true }
func (everybody) Stored(string) bool                  { return false }
func (everybody) Enforces(policy.NodeID) bool         { return false }
func (everybody) Fresh() streams.Fresh                { return streams.Fresh{} }
func (everybody) Wake() <-chan struct{}               { return nil }

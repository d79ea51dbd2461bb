// Package relay delivers the read model to nodes. The messages for a node are
// derived from the log's sequence and the read model: the hub sends them live to the
// streams that are connected to this process, the publisher publishes them on NATS,
// and a node that comes back gets what it missed from the read model of any worker.
// No message is stored.
//
// docs/protocol.md is the protocol; test/model checks it in random worlds. Package
// projector decides what a row is and when it changes, package snapshot makes the
// state that a node pulls.
package relay

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// Options has a useful zero value: nothing is published on NATS, quiet.
type Options struct {
	Partitions int // of the plane, as the log was created with; 0 is 64
	HubBytes   int // bytes of edges that wait for the hub, and for the publisher; 0 is 64 MiB
	// Head is the log's last sequence, as its leader says. nil: the own cursor.
	Head func(ctx context.Context) (uint64, error)
	// Reached is Head for a client that came with a sequence: before it says that the
	// log does not reach that, it makes sure that who leads the log now says so. nil: Head.
	Reached func(ctx context.Context, seq uint64) (uint64, error)
	// Confirmed reports whether the log is known to be the one that was folded; nil:
	// always.
	Confirmed func() bool
	// Dialect is the form of notices for a reader that does not ask for one; nil: the
	// current one.
	Dialect func(node policy.NodeID) policy.Dialect
	Publish PublishOptions // what is published on NATS
	// Progress records up to where this process publishes; may be nil.
	Progress *Progress
	Tables   TableWatch   // nil: nodes are not notified of a change of their table only
	Traced   func(Traced) // called after each round of messages that have a trace; may be nil
	Metrics  Metrics
	Log      *slog.Logger

	KeepAlive    time.Duration // between comments on a stream without messages; 0 is 25 s
	WriteTimeout time.Duration // after which a client that reads nothing is disconnected; 0 is 30 s
}

func (o Options) withDefaults(store Store) Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Partitions == 0 {
		o.Partitions = 64
	}
	if o.HubBytes == 0 {
		o.HubBytes = 64 << 20
	}
	if o.Head == nil {
		o.Head = func(context.Context) (uint64, error) { return store.Applied(), nil }
	}
	if o.Reached == nil {
		o.Reached = func(ctx context.Context, _ uint64) (uint64, error) { return o.Head(ctx) }
	}
	if o.Confirmed == nil {
		o.Confirmed = func() bool { return true }
	}
	if o.Dialect == nil {
		o.Dialect = func(policy.NodeID) policy.Dialect { return policy.DialectCurrent }
	}
	if o.Metrics == nil {
		o.Metrics = quiet{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Publish.Listeners == nil {
		o.Publish.Listeners = everybody{}
	}
	def(&o.KeepAlive, 25*time.Second)
	def(&o.WriteTimeout, 30*time.Second)
	return o
}

// Relay delivers messages to nodes. Its methods are safe for concurrent use.
type Relay struct {
	store Store
	keys  *artifact.Keyring
	logID string
	opt   Options
	turns chan struct{} // limits how many read the past at once
	clock func() time.Time
	look  time.Duration // between checks whether a removed node exists again

	warned atomic.Int64 // time of the last warning of a node beyond the log's end, Unix ns; 0: there was none

	envelopes *envelopes
	hub       *hub
	publisher *publisher // nil: nothing is published
}

// New makes a relay for the log created at that time; Run starts it.
func New(store Store, keys *artifact.Keyring, created time.Time, opt Options) *Relay {
	r := &Relay{
		store: store, keys: keys, opt: opt.withDefaults(store),
		logID: strconv.FormatInt(created.UnixNano(), 10),
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		clock: time.Now, look: time.Second,
	}
	if wire := r.opt.Publish.Wire; wire != nil {
		r.envelopes = newEnvelopes(keys, r.logID, wire.MaxPayload)
	}
	r.hub = newHub(r)
	r.publisher = newPublisher(r)
	if r.opt.Progress != nil {
		r.opt.Progress.publisher.Store(r.publisher)
	}
	return r
}

// Run delivers until ctx ends, or a part of it fails.
func (r *Relay) Run(ctx context.Context) error {
	to := feeds{r.hub.inbox}
	if r.publisher != nil {
		to = append(to, r.publisher.inbox)
	}
	seq, at := r.store.Feed(to)
	defer r.store.Feed(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.hub.Run(ctx, seq) })
	g.Go(func() error { return r.hub.askHeads(ctx) })
	served := make(chan struct{})
	if r.publisher != nil {
		g.Go(func() error { return r.publisher.Run(ctx, seq, at, served) })
	}
	if r.opt.Publish.Wire != nil {
		g.Go(func() error { return r.serveReplay(ctx, func() { close(served) }) })
	}
	if r.opt.Tables != nil {
		g.Go(func() error { return r.watchTables(ctx) })
	}
	return g.Wait()
}

// Ready returns why nodes cannot be served now, a *NotReadyError; nil if they can.
func (r *Relay) Ready() error {
	if err := r.confirmed(); err != nil {
		return err
	}
	return r.hub.ready()
}

// Position is the event id of the end of what was folded: a state that is read
// afterwards has every event at or below it.
func (r *Relay) Position() policy.EventID {
	return policy.EndOf(r.store.Base(), r.store.Applied())
}

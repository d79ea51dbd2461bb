// Package relay carries the read model to nodes. What a node is told is derived
// from the log's sequence and the read model: the hub tells it live to the
// streams that are connected here, the publisher to who listens on NATS, and
// either answers a node that comes back from the read model, at any worker.
// Nothing of it is stored.
//
// docs/protocol.md is the protocol; test/model holds it against random worlds.
// What a row is and when it changes is the projector's business; what a node's
// state is when it pulls is the snapshot's.
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
	// Confirmed reports whether the log's history is known to be the one that was
	// folded; nil: always.
	Confirmed func() bool
	// Dialect is the form of envelopes that a node's agent reads where the reader
	// does not ask for one; nil: all read the current one.
	Dialect func(node policy.NodeID) policy.Dialect
	Publish PublishOptions // what is published on NATS
	// Progress is told up to where this process publishes; nil: nobody asks.
	Progress *Progress
	Tables   TableWatch   // nil: changes of tables alone are not told
	Traced   func(Traced) // told of rounds that tell what a traced request caused; nil: nobody is
	Metrics  Metrics
	Log      *slog.Logger

	KeepAlive    time.Duration // between comments on a silent stream; 0 is 25 s
	WriteTimeout time.Duration // after which a client that reads nothing is let go; 0 is 30 s
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

// Relay tells nodes. Its methods are safe for many goroutines.
type Relay struct {
	store Store
	keys  *artifact.Keyring
	logID string
	opt   Options
	turns chan struct{} // of those who read the past
	clock func() time.Time
	look  time.Duration // between looks whether a node that was removed is there again

	warned atomic.Int64 // when it was said that a node stood beyond the log's end, unix ns; 0: never

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

// Run tells nodes until ctx ends, or a part cannot go on.
func (r *Relay) Run(ctx context.Context) error {
	to := feeds{r.hub.inbox}
	if r.publisher != nil {
		to = append(to, r.publisher.inbox)
	}
	seq := r.store.Feed(to)
	defer r.store.Feed(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.hub.Run(ctx, seq) })
	g.Go(func() error { return r.hub.askHeads(ctx) })
	if r.publisher != nil {
		g.Go(func() error { return r.publisher.Run(ctx, seq) })
	}
	if r.opt.Publish.Wire != nil {
		g.Go(func() error { return r.serveReplay(ctx) })
	}
	if r.opt.Tables != nil {
		g.Go(func() error { return r.watchTables(ctx) })
	}
	return g.Wait()
}

// Published is up to which event the own partitions are told on NATS, tables
// included: what others go on from.
func (r *Relay) Published() map[int]uint64 { return r.publisher.published() }

// Ready says why nodes cannot be served now, a *NotReadyError; nil: they can.
func (r *Relay) Ready() error {
	if err := r.confirmed(); err != nil {
		return err
	}
	return r.hub.ready()
}

// Position is the event id at which everything that was folded is told: what
// stands at or below it is in a state that is read afterwards.
func (r *Relay) Position() policy.EventID {
	return policy.EndOf(r.store.Base(), r.store.Applied())
}

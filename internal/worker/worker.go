package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

// Bucket holds the leases of the plane's processes.
const Bucket = "EDICT_WORKERS"

// Log is what is asked of the log: which one it is.
type Log interface {
	ID() string
	Base() uint64
}

// Fold is what is asked of the read model; *projector.Projector is one.
type Fold interface {
	Applied() uint64
	Links() []streams.Link
}

// Keys are what is asked of the keys of this worker; *keyring.Manager is one.
type Keys interface {
	// Held are the id of the key that signs, and those of all keys held.
	Held() (signs string, all []string)
}

// Options are what a worker is made of.
type Options struct {
	Dir        datadir.Dir
	Name       string
	HTTP       string        // where its API answers; "": nowhere
	Partitions int           // of the plane
	Announce   []int         // partitions to publish on NATS; nil: a share of all, with the other workers; empty: none
	LeaseTTL   time.Duration // after which a worker that is not heard of is taken for dead; 0: 10 s

	Log      Log
	Fold     Fold
	Keys     Keys
	Progress *relay.Progress // up to where this process publishes
	// Open opens the bucket of leases, and again when it is lost.
	Open func(ctx context.Context) (relay.Leases, error)
	// Damaged is why the fold stands: the worker publishes nothing then; nil: it does not.
	Damaged func() error
	// Compare is given the chain hashes that another worker sends.
	Compare func(worker string, links []streams.Link)
	Logger  *slog.Logger
}

// Worker is this process, and what it knows of the others.
type Worker struct {
	opt    Options
	log    *slog.Logger
	owner  string // of this process start
	leases *relay.Workers
	caught atomic.Bool // the fold is where the log was at the start

	mu   sync.Mutex
	here map[string]uint64 // how far this process had folded when it heard of an owner last
}

// New reads what the data directory remembers of this worker; Run takes its lease.
func New(opt Options) (*Worker, error) {
	id, err := opt.Dir.WorkerID()
	if err != nil {
		return nil, &datadir.UnusableError{What: "--data", Err: err}
	}
	marks, err := opt.Dir.Published(opt.Log.ID(), opt.Log.Base())
	if err != nil {
		return nil, &datadir.UnusableError{What: "--data", Err: err}
	}
	w := &Worker{opt: opt, log: opt.Logger, owner: relay.NewOwner(), here: map[string]uint64{}}
	w.leases = relay.NewWorkers(relay.WorkersOptions{
		Owner: w.owner, LogID: opt.Log.ID(), Base: opt.Log.Base(), Marks: marks, Partitions: opt.Partitions, TTL: opt.LeaseTTL, Log: opt.Logger,
		Open: opt.Open,
		Seen: func(other relay.Worker) {
			w.heard(other)
			opt.Compare(other.Name, parseLinks(other.Links))
		},
		Self: w.describe(relay.Worker{ID: id, Name: opt.Name, HTTP: opt.HTTP, Started: time.Now().UTC()}),
	})
	return w, nil
}

// describe completes base with what is so now.
func (w *Worker) describe(base relay.Worker) func() relay.Worker {
	return func() relay.Worker {
		self := base
		self.Applied = w.opt.Fold.Applied()
		if w.caught.Load() && w.opt.Damaged() == nil { // partitions are for who can publish them
			self.Shares = w.opt.Announce == nil
			self.Partitions = w.opt.Announce
		}
		self.Published = w.published(w.opt.Progress.Published())
		self.Links = formatLinks(w.opt.Fold.Links())
		self.Signs, self.Keys = w.opt.Keys.Held()
		return self
	}
}

// Run keeps the lease, and writes up to where this process published, until ctx
// ends.
func (w *Worker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.leases.Run(ctx) })
	g.Go(func() error { w.keepMarks(ctx); return nil })
	return g.Wait()
}

// CaughtUp lets the worker publish: the fold has come as far as the log went at
// the start.
func (w *Worker) CaughtUp() { w.caught.Store(true) }

// Publishes reports whether this process publishes any partitions.
func (w *Worker) Publishes() bool { return w.opt.Announce == nil || len(w.opt.Announce) > 0 }

// Share are the partitions that this process publishes.
func (w *Worker) Share() relay.Share {
	if w.opt.Announce != nil {
		return relay.Partitions(w.opt.Announce)
	}
	return w.leases
}

// Mark is up to where a partition is known to be published, by whoever did so;
// not ok: that is not known.
func (w *Worker) Mark(partition int) (seq uint64, ok bool) { return w.leases.Mark(partition) }

// Leads reports whether this process does what one of the workers does: it is
// the one that publishes partition 0.
func (w *Worker) Leads() bool { return w.leases.Publishing()[0].Owner == w.owner }

// Unassigned says which of the partitions that this process may publish nobody
// publishes yet; nil: none.
func (w *Worker) Unassigned() error {
	if !w.Publishes() {
		return nil
	}
	for _, x := range w.leases.Publishing() {
		if w.opt.Announce != nil && !slices.Contains(w.opt.Announce, x.Partition) {
			continue
		}
		if x.Owner == "" {
			return fmt.Errorf("partition %d is being taken", x.Partition)
		}
	}
	return nil
}

// marksPause is how often it is written up to where this worker published.
const marksPause = time.Second

func (w *Worker) published(marks map[int]uint64) *relay.Published {
	return &relay.Published{Log: w.opt.Log.ID(), Base: w.opt.Log.Base(), Partitions: marks}
}

// keepMarks writes up to where this process published, until ctx ends.
func (w *Worker) keepMarks(ctx context.Context) {
	if !w.Publishes() {
		return
	}
	var kept map[int]uint64
	failed := false
	tick := time.NewTicker(marksPause)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		now := w.opt.Progress.Published()
		if maps.Equal(now, kept) {
			continue
		}
		err := w.opt.Dir.KeepPublished(w.published(now))
		if err != nil && !failed {
			w.log.Warn("how far was published cannot be kept; after a restart some messages are published again", "error", err)
		}
		if failed = err != nil; !failed {
			kept = now
		}
	}
}

// LeasesOn opens the bucket of leases on conn, for Options.Open: in memory beside
// an embedded server, where nobody outlives it, so that a full disk ends no lease.
func LeasesOn(conn *streams.Conn, embedded bool) func(ctx context.Context) (relay.Leases, error) {
	return func(ctx context.Context) (relay.Leases, error) {
		b, err := streams.OpenBucket(ctx, conn, streams.BucketOptions{
			Name: Bucket, Description: "Edict's workers, each under a lease",
			MarkerTTL: time.Minute, Volatile: true, Memory: embedded,
		})
		if err != nil {
			return nil, err // not a nil bucket in an interface
		}
		return b, nil
	}
}

// errOthersUnknown is until this worker has seen its own lease.
var errOthersUnknown = errors.New("the other workers are not known yet")

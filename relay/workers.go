package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/edictdev/edict/streams"
	"golang.org/x/sync/errgroup"
)

// Leases is what is asked of bucket EDICT_WORKERS; *streams.Bucket is one. What
// the methods promise is said there.
type Leases interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, revision uint64) error
	List(ctx context.Context) (entries []streams.Entry, upTo uint64, err error)
	Watch(ctx context.Context, after uint64) iter.Seq2[[]streams.Entry, error]
}

// DefaultLeaseTTL is how long a worker is believed to live after it was heard
// of last.
const DefaultLeaseTTL = 10 * time.Second

// leaseMargin is how long before the end of its lease a worker stops
// announcing: a batch that was sent before then is stored, or refused, before
// another worker takes its partitions.
const leaseMargin = time.Second

// WorkersOptions say who this process is to the others.
type WorkersOptions struct {
	Owner      string                                // as in fences: NewOwner
	Partitions int                                   // of the plane
	TTL        time.Duration                         // of a lease, whole seconds, 2 s or more; 0 is 10 s
	Open       func(context.Context) (Leases, error) // called again when the leases are lost
	// Self is this process now: all but Owner. It is asked often.
	Self func() Worker
	// Seen is told what another worker says of itself, at each of its renewals; nil: nobody is.
	Seen func(Worker)
	Log  *slog.Logger
}

// Workers keeps the lease of this process and watches those of the others. It
// is the Share of a process that divides the partitions with the workers that
// are alive.
type Workers struct {
	opt WorkersOptions

	mu      sync.Mutex
	roster  *roster
	watched uint64    // revision up to which the watch has come
	joined  uint64    // revision that began the present lease
	own     heard     // the own lease, as the watch last saw it
	renewed time.Time // when the last renewal that succeeded was sent; zero: no lease
	dealtTo []Worker  // for whom dealt was found
	dealt   []int     // the share of this process, while it holds its lease
	mine    []int
	changed chan struct{}
	kick    chan struct{} // something was heard
}

// NewWorkers makes it; Run starts it.
func NewWorkers(opt WorkersOptions) *Workers {
	if opt.TTL == 0 {
		opt.TTL = DefaultLeaseTTL
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Workers{opt: opt, roster: newRoster(opt.TTL), changed: make(chan struct{}), kick: make(chan struct{}, 1)}
}

// Run keeps the lease until ctx ends, and gives it up then, so that others need
// not wait for its end.
func (w *Workers) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := w.serve(ctx)
		w.forget()
		if ctx.Err() != nil {
			break
		}
		w.opt.Log.Warn("the workers' leases are lost; opening them again", "error", err)
		sleep(ctx, backoffMost/4)
	}
	return nil
}

// serve works on one bucket, until ctx ends or it cannot go on.
func (w *Workers) serve(ctx context.Context) error {
	leases, err := w.opt.Open(ctx)
	if err != nil {
		return err
	}
	if err := w.clear(ctx, leases); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.watch(ctx, leases) })
	g.Go(func() error { return w.keep(ctx, leases) })
	g.Go(func() error { return w.mind(ctx) })
	return g.Wait()
}

// clear takes away the lease that an earlier start of this very worker left: it
// holds the data directory alone, so the process that had it is gone.
func (w *Workers) clear(ctx context.Context, leases Leases) error {
	id := w.Self().ID
	entries, _, err := leases.List(ctx)
	if err != nil || id == "" {
		return err
	}
	for _, e := range entries {
		x, err := parseWorker(e)
		if err != nil || x.ID != id || x.Owner == w.opt.Owner {
			continue
		}
		if err := leases.Delete(ctx, e.Key, e.Revision); err != nil && !errors.Is(err, streams.ErrWrongSequence) {
			return err
		}
	}
	return nil
}

func parseWorker(e streams.Entry) (x Worker, err error) {
	if err := json.Unmarshal(e.Value, &x); err != nil {
		return x, fmt.Errorf("lease of %s: %w", e.Key, err)
	}
	x.Owner = e.Key
	return x, nil
}

// watch notes what every worker says of itself.
func (w *Workers) watch(ctx context.Context, leases Leases) error {
	for entries, err := range leases.Watch(ctx, 0) {
		if err != nil {
			return err
		}
		w.tell(w.see(entries))
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("watch the workers: it ended")
}

// tell passes on what others say of themselves.
func (w *Workers) tell(others []Worker) {
	if w.opt.Seen == nil {
		return
	}
	for _, x := range others {
		w.opt.Seen(x)
	}
}

func (w *Workers) see(entries []streams.Entry) (others []Worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	joining := w.watched < w.joined
	for _, e := range entries {
		w.watched = e.Revision
		x, err := parseWorker(e)
		switch {
		case e.Gone:
			w.roster.gone(e.Key)
		case err != nil:
			w.opt.Log.Warn("a worker's lease cannot be read", "error", err)
		default:
			w.roster.see(x, now, e.Time)
			if x.Owner != w.opt.Owner {
				others = append(others, x)
				continue
			}
			w.own = heard{e.Revision, now, e.Time}
			if joining {
				w.ageLocked()
			}
		}
	}
	w.reviewLocked(now)
	w.hear()
	return others
}

// heard is a renewal that the watch saw.
type heard struct {
	revision   uint64
	at, stored time.Time // by the own clock, and by the server's
}

// ageLocked counts the others' leases as they do, once the watch has seen how
// the present one began. That may be before the bucket has answered that it did.
func (w *Workers) ageLocked() {
	if w.own.revision >= w.joined {
		w.roster.age(w.own.at, w.own.stored)
	}
}

func (w *Workers) hear() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// mind looks again whenever a lease is over with nobody saying so.
func (w *Workers) mind(ctx context.Context) error {
	for {
		w.mu.Lock()
		now := time.Now()
		w.reviewLocked(now)
		wait := w.roster.next(now)
		if held := w.renewed.Add(w.opt.TTL - leaseMargin).Sub(now); held > 0 {
			wait = min(wait, held)
		}
		w.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-w.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// reviewLocked divides the partitions anew, if anything that matters changed.
func (w *Workers) reviewLocked(now time.Time) {
	live := w.roster.live(now)
	if !slices.EqualFunc(live, w.dealtTo, sameClaim) {
		w.dealtTo, w.dealt = live, divide(w.opt.Partitions, live)[w.opt.Owner]
	}
	var mine []int
	if w.holdsLocked(now) {
		mine = w.dealt
	}
	if slices.Equal(mine, w.mine) {
		return
	}
	w.mine = mine
	close(w.changed)
	w.changed = make(chan struct{})
}

// sameClaim reports whether a division would treat both alike.
func sameClaim(a, b Worker) bool {
	return a.Owner == b.Owner && a.ID == b.ID && a.Shares == b.Shares && slices.Equal(a.Partitions, b.Partitions)
}

// holdsLocked: the own lease stands, with its margin, and the watch has seen
// how it began. Who has not seen that knows the others as they were before a
// pause of its own.
func (w *Workers) holdsLocked(now time.Time) bool {
	return !w.renewed.IsZero() && now.Sub(w.renewed) < w.opt.TTL-leaseMargin && w.watched >= w.joined
}

// forget ends the lease here, whatever the server thinks of it.
func (w *Workers) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.roster = newRoster(w.opt.TTL)
	w.renewed, w.watched, w.joined, w.own = time.Time{}, 0, 0, heard{}
	w.reviewLocked(time.Now())
}

// Live are the workers whose lease stands, by name, as this process sees it.
func (w *Workers) Live() []Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roster.live(time.Now())
}

// Self is this process, as it is about to tell the others.
func (w *Workers) Self() Worker {
	self := w.opt.Self()
	self.Owner = w.opt.Owner
	return self
}

// Mine is this process's share.
func (w *Workers) Mine() (ids []int, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mine, w.changed
}

// Holds reports whether a partition is in the share, and the lease stands.
func (w *Workers) Holds(partition int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, in := slices.BinarySearch(w.mine, partition)
	return in && w.holdsLocked(time.Now())
}

package relay

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/streams"
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
// publishing: another worker has its partitions from then on.
const leaseMargin = time.Second

// WorkersOptions say who this process is to the others.
type WorkersOptions struct {
	Owner      string                                // NewOwner
	LogID      string                                // of the log whose events are published
	Base       uint64                                // of its event ids
	Marks      map[int]uint64                        // up to where partitions are known to be published, from before
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
	dealt   map[string][]int
	marks   map[int]uint64 // up to where whoever published a partition says that it did
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
	marks := maps.Clone(opt.Marks)
	if marks == nil {
		marks = map[int]uint64{}
	}
	return &Workers{opt: opt, roster: newRoster(opt.TTL), marks: marks, changed: make(chan struct{}), kick: make(chan struct{}, 1)}
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
		w.mu.Lock()
		w.markLocked(x)
		w.mu.Unlock()
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
		case x.Over:
			w.markLocked(x)
			w.roster.gone(e.Key)
		default:
			w.roster.see(x, now, e.Time)
			w.markLocked(x)
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
		w.dealtTo, w.dealt = live, divide(w.opt.Partitions, live)
	}
	var mine []int
	if w.holdsLocked(now) {
		mine = w.dealt[w.opt.Owner]
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

// markLocked notes up to where a worker says that it has published.
func (w *Workers) markLocked(x Worker) {
	if x.Published == nil || !x.Published.Of(w.opt.LogID, w.opt.Base) {
		return
	}
	for p, seq := range x.Published.Partitions {
		w.marks[p] = max(w.marks[p], seq)
	}
}

// Mark is up to where a partition is known to be published, by whoever did so;
// not ok: that is not known.
func (w *Workers) Mark(partition int) (seq uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seq, ok = w.marks[partition]
	return seq, ok
}

// Publishing is one partition, as the leases have it.
type Publishing struct {
	Partition int
	Owner     string // of the process that publishes it; "": none does
	UpTo      uint64 // everything up to this event was published, when it said so last
}

// Publishing are all partitions, ascending.
func (w *Workers) Publishing() []Publishing {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reviewLocked(time.Now())
	all := make([]Publishing, w.opt.Partitions)
	for p := range all {
		all[p] = Publishing{Partition: p, UpTo: w.marks[p]}
	}
	note := func(owner string, ids []int) {
		for _, p := range ids {
			if p < len(all) && all[p].Owner == "" {
				all[p].Owner = owner
			}
		}
	}
	for _, x := range w.dealtTo {
		note(x.Owner, x.Partitions)
		note(x.Owner, w.dealt[x.Owner])
	}
	return all
}

// NewOwner names a process start; two never agree.
func NewOwner() string { return rand.Text() }

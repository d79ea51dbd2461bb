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

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/streams"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Leases is the bucket EDICT_WORKERS, as Workers needs it; *streams.Bucket is one, and
// describes the methods.
type Leases interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, revision uint64) error
	List(ctx context.Context) (entries []streams.Entry, upTo uint64, err error)
	Watch(ctx context.Context, after uint64) iter.Seq2[[]streams.Entry, error]
}

// DefaultLeaseTTL is how long after its last renewal a worker counts as alive.
const DefaultLeaseTTL = 10 * time.Second

// leaseMargin is how long before the end of its lease a worker stops
// publishing: another worker has its partitions from then on.
const leaseMargin = time.Second

// WorkersOptions describe this process to the others.
type WorkersOptions struct {
	Owner      string                                // NewOwner
	LogID      string                                // of the log whose events are published
	Base       uint64                                // of its event ids
	Marks      map[int]uint64                        // up to where partitions are known to be published, from an earlier start
	Partitions int                                   // of the plane
	TTL        time.Duration                         // of a lease, whole seconds, 2 s or more; 0 is 10 s
	Open       func(context.Context) (Leases, error) // called again when the leases are lost
	// Self describes this process now, without Owner. It is called often.
	Self func() Worker
	// Seen is called with each renewal of another worker; may be nil.
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
	own     renewal   // of the own lease, as the watch saw it last
	renewed time.Time // when the last renewal that succeeded was sent; zero: no lease
	dealtTo []Worker  // the workers for which dealt was computed
	dealt   map[string][]int
	marks   map[int]uint64 // up to where a partition is published, as the leases say
	mine    []int
	changed chan struct{}
	kick    chan struct{}       // the roster or the own lease has changed
	name    string              // of this process; "" before it has opened the leases
	warned  map[string]struct{} // owners of the name of this process that were warned of
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
	return &Workers{opt: opt, roster: newRoster(opt.TTL), marks: marks, changed: make(chan struct{}), kick: make(chan struct{}, 1), warned: map[string]struct{}{}}
}

// Run keeps the lease until ctx ends. Then it gives the lease up, so that others need
// not wait for its end.
func (w *Workers) Run(ctx context.Context) error {
	again := backoff.Steady(rosterRetry)
	var say *rate.Sometimes // servers may be away for hours
	for ctx.Err() == nil {
		err := w.serve(ctx)
		if w.forget() || say == nil {
			say = &rate.Sometimes{First: 1, Interval: time.Minute}
		}
		if ctx.Err() != nil {
			break
		}
		say.Do(func() { w.opt.Log.Warn("the workers' leases are lost; opening them again", "error", err) })
		_ = again.Pause(ctx)
	}
	return nil
}

// serve works on one bucket, until ctx ends or something fails.
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
	g.Go(func() error { return w.watchExpiry(ctx) })
	return g.Wait()
}

// clear deletes the lease that an earlier start of this worker left. Only one process
// at a time has the data directory, so the one that wrote the lease has ended.
func (w *Workers) clear(ctx context.Context, leases Leases) error {
	self := w.Self()
	id := self.ID
	w.mu.Lock()
	w.name = self.Name
	w.mu.Unlock()
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

// watch notes the leases of all workers as they change.
func (w *Workers) watch(ctx context.Context, leases Leases) error {
	for entries, err := range leases.Watch(ctx, 0) {
		if err != nil {
			return err
		}
		w.notifySeen(w.see(entries))
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("watch the workers: it ended")
}

// notifySeen calls Seen with the renewals of others.
func (w *Workers) notifySeen(others []Worker) {
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
				w.warnLocked(x, e.Revision)
				continue
			}
			w.own = renewal{e.Revision, now, e.Time}
			if joining {
				w.ageLocked()
			}
		}
	}
	w.reviewLocked(now)
	w.wake()
	return others
}

// warnLocked says once of each other process of this one's name that it lives. That it does
// shows when it renews its lease after this process has made its own: a lease that is older
// may be that of an earlier start of this worker, which was killed.
func (w *Workers) warnLocked(x Worker, revision uint64) {
	if _, warned := w.warned[x.Owner]; warned || x.Name != w.name || w.joined == 0 || revision < w.joined {
		return
	}
	w.warned[x.Owner] = struct{}{}
	w.opt.Log.Warn("another live worker has the same name: give each its own with --name", "worker", x.Name, "http", x.HTTP)
}

// renewal is a renewal that the watch saw.
type renewal struct {
	revision   uint64
	at, stored time.Time // by this process's clock, and by the server's
}

// ageLocked counts the others' leases from when the server stored them (roster.age).
// It needs a renewal of the present own lease that the watch has seen. The watch may
// see it before the bucket has answered the write.
func (w *Workers) ageLocked() {
	if w.own.revision >= w.joined {
		w.roster.age(w.own.at, w.own.stored)
	}
}

func (w *Workers) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// watchExpiry reviews the division when a lease ends by time, for which nothing is received.
func (w *Workers) watchExpiry(ctx context.Context) error {
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

// reviewLocked divides the partitions again if anything has changed that matters.
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

// sameClaim reports whether a and b are the same to divide.
func sameClaim(a, b Worker) bool {
	return a.Owner == b.Owner && a.ID == b.ID && a.Shares == b.Shares && slices.Equal(a.Partitions, b.Partitions)
}

// holdsLocked reports whether the own lease is valid, with its margin, and the watch
// has seen its first value. Until then this process may have been paused, and may know
// the other workers only as they were before the pause.
func (w *Workers) holdsLocked(now time.Time) bool {
	return !w.renewed.IsZero() && now.Sub(w.renewed) < w.opt.TTL-leaseMargin && w.watched >= w.joined
}

// forget drops what is known of the leases, whether or not the server still has the own
// one. had: there was one.
func (w *Workers) forget() (had bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	had = !w.renewed.IsZero()
	w.roster = newRoster(w.opt.TTL)
	w.renewed, w.watched, w.joined, w.own = time.Time{}, 0, 0, renewal{}
	w.reviewLocked(time.Now())
	return had
}

// Live returns the workers whose lease has not ended, by name, as this process sees it.
func (w *Workers) Live() []Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roster.live(time.Now())
}

// Self is this process, as its next renewal will describe it.
func (w *Workers) Self() Worker {
	self := w.opt.Self()
	self.Owner = w.opt.Owner
	return self
}

// Mine returns this process's share.
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

// Mark is up to where a partition is known to be published, by whatever worker. ok is
// false if that is not known.
func (w *Workers) Mark(partition int) (seq uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seq, ok = w.marks[partition]
	return seq, ok
}

// Publishing is who publishes a partition, according to the leases.
type Publishing struct {
	Partition int
	Owner     string // of the process that publishes it; "" if none does
	UpTo      uint64 // everything up to this event is published, according to its last renewal
}

// Publishing returns all partitions, ascending.
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
			if 0 <= p && p < len(all) && all[p].Owner == "" { // a lease may name any
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

// NewOwner makes a name for this start of a process. No two starts have the same.
func NewOwner() string { return rand.Text() }

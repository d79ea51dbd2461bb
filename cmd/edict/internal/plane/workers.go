package plane

import (
	"context"
	"maps"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

// workersBucket holds the leases of the plane's processes.
const workersBucket = "EDICT_WORKERS"

// openWorkers makes the register of workers and has opt go by it.
func (p *Plane) openWorkers(opt *relay.Options) error {
	id, err := p.dir.WorkerID()
	if err != nil {
		return &datadir.UnusableError{What: "--data", Err: err}
	}
	marks, err := p.dir.Published(p.stream.ID(), p.stream.Base())
	if err != nil {
		return &datadir.UnusableError{What: "--data", Err: err}
	}
	p.owner = relay.NewOwner()
	self := relay.Worker{ID: id, Name: p.opt.Name, Started: time.Now().UTC(), Partitions: p.opt.Announce}
	p.workers = relay.NewWorkers(relay.WorkersOptions{
		Owner: p.owner, LogID: p.stream.ID(), Base: p.stream.Base(), Marks: marks, Partitions: opt.Partitions, TTL: p.opt.LeaseTTL, Log: p.log,
		Open: p.openLeases, Seen: p.compareWith,
		Self: func() relay.Worker {
			self := self
			self.Applied = p.store.Applied()
			self.HTTP = p.Addresses().HTTP
			able := p.caught.Load() && p.alarm.Raised() == nil // partitions are for who can publish them
			self.Shares = p.opt.Announce == nil && able
			if !able {
				self.Partitions = nil
			}
			self.Published = p.publishedUpTo(p.relay.Published())
			self.Links = toldLinks(p.store.Links())
			self.Signs, self.Keys = p.keys.Held()
			return self
		},
	})
	if !p.publishes() {
		return nil
	}
	opt.Publish.Listeners, opt.Publish.Marks = streams.NewListeners(p.wire), p.workers.Mark
	opt.Publish.Share = p.workers
	if p.opt.Announce != nil {
		opt.Publish.Share = relay.Partitions(p.opt.Announce)
	}
	return nil
}

// publishes reports whether this process publishes any partitions.
func (p *Plane) publishes() bool { return p.opt.Announce == nil || len(p.opt.Announce) > 0 }

// marksPause is how often it is written up to where this worker published.
const marksPause = time.Second

func (p *Plane) publishedUpTo(marks map[int]uint64) *relay.Published {
	return &relay.Published{Log: p.stream.ID(), Base: p.stream.Base(), Partitions: marks}
}

// keepMarks writes up to where this process published, until ctx ends.
func (p *Plane) keepMarks(ctx context.Context) error {
	if !p.publishes() {
		return nil
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
		now := p.relay.Published()
		if maps.Equal(now, kept) {
			continue
		}
		err := p.dir.KeepPublished(p.publishedUpTo(now))
		if err != nil && !failed {
			p.log.Warn("up to where nodes were told cannot be kept; after a restart some are told again", "error", err)
		}
		if failed = err != nil; !failed {
			kept = now
		}
	}
	return nil
}

// openLeases opens their bucket: in memory beside an embedded server, where
// nobody outlives it, so that a full disk ends no lease.
func (p *Plane) openLeases(ctx context.Context) (relay.Leases, error) {
	b, err := streams.OpenBucket(ctx, p.conn, streams.BucketOptions{
		Name: workersBucket, Description: "Edict's workers, each under a lease",
		MarkerTTL: time.Minute, Volatile: true, Memory: p.opt.NATS == "",
	})
	if err != nil {
		return nil, err // not a nil bucket in an interface
	}
	return b, nil
}

// workersNow are the workers that are alive, as their leases say; of this one
// what is so now.
func (p *Plane) workersNow(head uint64) []resource.Worker {
	live := p.workers.Live()
	out := make([]resource.Worker, 0, len(live)+1)
	met := false
	add := func(w relay.Worker) {
		if w.Owner == p.owner {
			met = true
			w.Applied = p.store.Applied()
		}
		r := resource.Worker{Name: w.Name, Owner: w.Owner, HTTP: w.HTTP, Started: w.Started, Applied: w.Applied}
		r.Lag = head - min(head, w.Applied)
		out = append(out, r)
	}
	for _, w := range live {
		add(w)
	}
	if !met {
		add(p.workers.Self())
	}
	return out
}

// workerNames are the names of workers that are alive, by owner.
func (p *Plane) workerNames() map[string]string {
	names := map[string]string{p.owner: p.opt.Name}
	for _, w := range p.workers.Live() {
		names[w.Owner] = w.Name
	}
	return names
}

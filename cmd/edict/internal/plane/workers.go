package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
)

// workersBucket holds the leases of the plane's processes.
const workersBucket = "EDICT_WORKERS"

// workerFile is where a data directory keeps who works on it.
const workerFile = "worker.id"

// openWorkers makes the register of workers and has opt go by it.
func (p *Plane) openWorkers(opt *relay.Options) error {
	id, err := p.workerID()
	if err != nil {
		return &UnusableError{"--data", err}
	}
	marks, err := p.loadMarks()
	if err != nil {
		return &UnusableError{"--data", err}
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
			able := p.caught.Load() && p.guard.raised() == nil // partitions are for who can publish them
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

// marksFile is where a data directory keeps up to where its worker published,
// for when no other worker is left that knows.
const marksFile = "published.json"

// marksPause is how often that is written.
const marksPause = time.Second

// loadMarks reads what keepMarks left.
func (p *Plane) loadMarks() (map[int]uint64, error) {
	text, err := os.ReadFile(filepath.Join(p.opt.Data, marksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var kept relay.Published
	if err != nil || json.Unmarshal(text, &kept) != nil || !kept.Of(p.stream.ID(), p.stream.Base()) {
		return nil, err // a crash may leave the file empty
	}
	return kept.Partitions, nil
}

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
		err := p.writeMarks(now)
		if err != nil && !failed {
			p.log.Warn("up to where nodes were told cannot be kept; after a restart some are told again", "error", err)
		}
		if failed = err != nil; !failed {
			kept = now
		}
	}
	return nil
}

func (p *Plane) writeMarks(marks map[int]uint64) error {
	text, err := json.Marshal(p.publishedUpTo(marks))
	if err != nil {
		return err
	}
	path := filepath.Join(p.opt.Data, marksFile)
	// A power failure may take it; nothing is lost then.
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
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

// workerID is the lasting name of who works on this data directory.
func (p *Plane) workerID() (string, error) {
	path := filepath.Join(p.opt.Data, workerFile)
	text, err := os.ReadFile(path)
	if err == nil {
		if id, err := uuid.Parse(strings.TrimSpace(string(text))); err == nil {
			return id.String(), nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// A crash may leave the file empty: who works here is named anew, then.
	id := uuid.New().String()
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return id, nil
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

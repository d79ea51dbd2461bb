package relay

import (
	"cmp"
	"slices"
	"time"
)

// Worker is one process of the plane, as its lease in bucket EDICT_WORKERS describes
// it. It is written again with every renewal.
type Worker struct {
	Owner   string    `json:"owner"` // of this process start
	ID      string    `json:"id"`    // of its data directory, so it outlives a restart
	Name    string    `json:"name"`
	HTTP    string    `json:"http"` // address of its API; "" if it has none
	Started time.Time `json:"started"`
	Applied uint64    `json:"applied"` // last log sequence folded, when it renewed
	// Shares: it publishes an equal share of the partitions that no worker is configured to publish.
	Shares bool `json:"shares"`
	// Partitions that it is configured to publish, whatever other workers there are.
	Partitions []int `json:"partitions,omitempty"`
	// Published is up to where it has published: whoever takes a partition over goes on from there.
	Published *Published `json:"published,omitempty"`
	// Over: it has stopped, and this is the last value of its lease.
	Over bool `json:"over,omitempty"`
	// Links are its fold's chain hashes at a few sequences, ascending, for the others to compare with theirs.
	Links []WorkerLink `json:"links,omitempty"`
	// Signs is the id of the key that it signs with, Keys those of all that it holds.
	Signs string   `json:"signs,omitempty"`
	Keys  []string `json:"keys,omitempty"`
}

// Published is up to which event of a log partitions are published.
type Published struct {
	Log        string         `json:"log"`            // the log's identity
	Base       uint64         `json:"base,omitempty"` // of its event ids; 0 if an older edict wrote it
	Partitions map[int]uint64 `json:"partitions"`
}

// Of reports whether it is about a log whose event ids count from base. When the base
// changes, the past is another one.
func (p *Published) Of(log string, base uint64) bool {
	return p.Log == log && (p.Base == 0 || p.Base == base)
}

// WorkerLink is a worker's chain hash of the log at one sequence.
type WorkerLink struct {
	Log  string `json:"log"` // the log's identity
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // 64 hex digits
}

// roster is the workers that are alive, as this process sees them. It has no clock:
// callers pass the time, by the clock of this process.
type roster struct {
	ttl  time.Duration
	seen map[string]sighting // by owner
}

type sighting struct {
	Worker
	at     time.Time
	stored time.Time // by the server's clock
}

func newRoster(ttl time.Duration) *roster {
	return &roster{ttl: ttl, seen: map[string]sighting{}}
}

// see notes that a lease was made or renewed, and when the server stored it.
func (r *roster) see(w Worker, now, stored time.Time) { r.seen[w.Owner] = sighting{w, now, stored} }

// age counts every lease from when the server stored it. The time when it was seen
// here is later if this process has just started, or was paused. The clocks are
// compared at one event: it was seen at now and stored at stored.
func (r *roster) age(now, stored time.Time) {
	for owner, s := range r.seen {
		if at := now.Add(-stored.Sub(s.stored)); at.Before(s.at) {
			s.at = at
			r.seen[owner] = s
		}
	}
}

// gone notes a lease that ended.
func (r *roster) gone(owner string) { delete(r.seen, owner) }

// live returns the workers whose lease has not ended, by name. A lease that was not
// renewed for its time to live has ended, even if the server has not yet removed it.
func (r *roster) live(now time.Time) []Worker {
	var out []Worker
	for owner, s := range r.seen {
		if now.Sub(s.at) >= r.ttl {
			delete(r.seen, owner)
			continue
		}
		out = append(out, s.Worker)
	}
	slices.SortFunc(out, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Owner, b.Owner)) })
	return out
}

// next is how long the roster stays as it is if no lease is renewed.
func (r *roster) next(now time.Time) time.Duration {
	wait := r.ttl
	for _, s := range r.seen {
		wait = min(wait, s.at.Add(r.ttl).Sub(now))
	}
	return max(wait, 0)
}

package relay

import (
	"cmp"
	"slices"
	"time"
)

// Worker is one process of the plane as the others know it: the value of its
// lease in bucket EDICT_WORKERS, written anew with every renewal.
type Worker struct {
	Owner   string    `json:"owner"` // of this process start
	ID      string    `json:"id"`    // of its data directory: the same after a restart
	Name    string    `json:"name"`
	HTTP    string    `json:"http"` // where its API answers; "": nowhere
	Started time.Time `json:"started"`
	Applied uint64    `json:"applied"` // last log sequence folded, when it renewed
	// Shares: it publishes an equal share of the partitions that no worker is told to publish.
	Shares bool `json:"shares"`
	// Partitions it was told to publish, whoever else there is.
	Partitions []int `json:"partitions,omitempty"`
	// Published is up to where it has published: whoever takes a partition over goes on from there.
	Published *Published `json:"published,omitempty"`
	// Over: it has stopped; this is its last word.
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
	Base       uint64         `json:"base,omitempty"` // of its event ids; 0: an older edict did not say
	Partitions map[int]uint64 `json:"partitions"`
}

// Of reports whether it is about a log whose event ids count from base. What was
// published before they began anew was another past.
func (p *Published) Of(log string, base uint64) bool {
	return p.Log == log && (p.Base == 0 || p.Base == base)
}

// WorkerLink is a worker's chain hash of the log at one sequence.
type WorkerLink struct {
	Log  string `json:"log"` // the log's identity
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // 64 hex digits
}

// roster is who is alive, as one process has seen it. It knows no clock but
// the times it is given, which are this process's own.
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

// see notes a lease that was made or renewed, and when the server stored that.
func (r *roster) see(w Worker, now, stored time.Time) { r.seen[w.Owner] = sighting{w, now, stored} }

// age counts every lease from when it was stored, and not from when it was
// seen here, which for one who just came, or was away, is later. now is what
// stored is by the server's clock.
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

// live are the workers whose lease stands, by name. One that was not renewed
// for its time to live is over, whether or not the server has said so.
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

// next is how long the roster stays as it is if nothing is heard.
func (r *roster) next(now time.Time) time.Duration {
	wait := r.ttl
	for _, s := range r.seen {
		wait = min(wait, s.at.Add(r.ttl).Sub(now))
	}
	return max(wait, 0)
}

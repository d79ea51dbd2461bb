package plexd

import (
	"context"
	"maps"
	"sync"
)

// Mode says how an agent hears of changes.
type Mode string

// Modes of an agent.
const (
	Streaming Mode = ""          // by its stream, or it tries to
	Polling   Mode = "polling"   // the stream failed too long; it pulls and tries again
	PullOnly  Mode = "pull_only" // the plane says that it has no streams; it asks again later
	Deaf      Mode = "deaf"      // the stream was denied: a restart alone cures that
)

// Counters are what an agent did and met since it was made.
type Counters struct {
	Mode Mode

	Registrations int
	Attempts      int         // requests for the stream
	Answers       map[int]int // and their statuses
	Drops         int         // streams that were opened and ended, in whatever way
	LongLines     int         // of them: at a line of 64 KiB or more
	OwnCuts       int         // of them: by the agent's own timeout
	Idles         int         // of them: silent too long

	Dispatched int // events that were good
	Unknown    int // of them: of a type that means nothing to it
	Rotations  int // of them: another signing key, taken
	Malformed  int // events that were skipped: not to be read,
	Unsigned   int // without a signature, a time or a nonce,
	Stale      int // signed too long ago
	Early      int // or in the future,
	Forged     int // not by a key that it trusts,
	Replayed   int // or with a nonce that it has met
	Late       int // announcements of the key that it trusts, after the transition to it
	Foreign    int // good events about another node

	Pulls, PullFailures  int
	Applied              int // rulesets that were put in place
	Unchanged            int // pulls that changed nothing
	Rejected             int // rulesets that could not be translated: the old one stays
	Heartbeats           int // that were answered 200
	HeartbeatFailures    int
	Hints                int // heartbeats that told it to pull
	RotateHints          int // or to make new keys
	Reports              int // of any other kind, answered 2xx
	ReportFailures       int
	LastReport, LastPull int // statuses
}

// Connects are the streams that were opened.
func (c Counters) Connects() int { return c.Answers[200] }

// Refused are the events that were skipped, but for those that came late: a busy machine
// may read what was said a moment before the end of a transition.
func (c Counters) Refused() int {
	return c.Malformed + c.Unsigned + c.Stale + c.Early + c.Forged + c.Replayed
}

// book keeps the counters and wakes who waits for them.
type book struct {
	mu      sync.Mutex
	c       Counters
	changed chan struct{} // nil: nobody waits
}

func (b *book) note(change func(c *Counters)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.c)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Counters are the counters as they are now.
func (a *Agent) Counters() Counters {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	c := a.book.c
	c.Answers = maps.Clone(c.Answers)
	return c
}

// Await waits until the counters are as wanted. wanted must keep nothing of
// what it is given. The error is ctx's.
func (a *Agent) Await(ctx context.Context, wanted func(Counters) bool) error {
	for {
		a.book.mu.Lock()
		if wanted(a.book.c) {
			a.book.mu.Unlock()
			return nil
		}
		if a.book.changed == nil {
			a.book.changed = make(chan struct{})
		}
		changed := a.book.changed
		a.book.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

package access

import (
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Excess shuts out, for a while, the producers of projects that go on sending what their
// quota refuses. The log stores such an event all the same, and it costs whoever writes beside
// it as much as one that is applied. Nothing of this is in the log or in the read model:
// verdicts are what they would be without it, and a worker that starts knows of nobody.
type Excess struct {
	// First is how long a project is shut out at first; it is set before anything is heard.
	First time.Duration

	log   *slog.Logger
	clock func() time.Time

	mu   sync.Mutex
	of   map[uuid.UUID]*excess
	shut chan struct{}

	stop    sync.Once
	stopped chan struct{}
}

// excess is what a project sent too much.
type excess struct {
	events float64   // that were not applied, less those that are forgotten
	at     time.Time // when they were counted
	until  time.Time // its producers are shut out; zero: they never were
	times  int       // in a row
}

const (
	// So many events that are not applied, or as many as the quota lets pass in a second if
	// that is more, are nobody's business: a producer reads verdicts, and slows down. They are
	// forgotten at a rate, all of them in excessForgotten.
	excessBurst     = 100
	excessForgotten = 10 * time.Second
	// A project is shut out for so long at first, and each time twice as long as before. At
	// first it is as long as a client of nats.go waits before it connects again, so that who
	// was too fast once is not refused.
	firstShutOut   = 2 * time.Second
	longestShutOut = 5 * time.Minute
	// Whose producers were not shut out for so long begins at first again.
	shutOutForgiven = 10 * time.Minute
	// An event that is older was not sent just now: a start folds the past.
	excessFresh = 10 * time.Second
)

// NewExcess knows of nobody yet. A nil clock is the wall clock.
func NewExcess(log *slog.Logger, clock func() time.Time) *Excess {
	if clock == nil {
		clock = time.Now
	}
	return &Excess{First: firstShutOut, log: log, clock: clock, of: map[uuid.UUID]*excess{}, shut: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// Stop has nobody wait any more: whoever is shut out is refused at once.
func (x *Excess) Stop() { x.stop.Do(func() { close(x.stopped) }) }

// Unapplied hears of an event that a project's quota did not let be applied, how many that
// lets pass in a second, and when the log stored it. The fold calls it: it is quick, and asks
// the read model nothing.
func (x *Excess) Unapplied(project uuid.UUID, perSecond uint64, stored time.Time) {
	if !x.Heeds(stored) {
		return
	}
	now := x.clock()
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.of[project]
	if e == nil {
		x.drop(now)
		e = &excess{at: now}
		x.of[project] = e
	}
	if now.Before(e.until) {
		return // it was under way
	}
	most := max(excessBurst, float64(perSecond))
	e.events = max(0, e.events-most*now.Sub(e.at).Seconds()/excessForgotten.Seconds())
	e.at = now
	if e.events++; e.events > most {
		x.shutOut(project, e, now)
	}
}

// Heeds reports whether an event that the log stored then is one that was just sent.
func (x *Excess) Heeds(stored time.Time) bool { return x.clock().Sub(stored) <= excessFresh }

// Overflow hears of an event that was not even appended, because too many of its project
// wait for that: its producers wait for no acknowledgement.
func (x *Excess) Overflow(project uuid.UUID) { x.Unapplied(project, 0, x.clock()) }

// drop lets go of projects that kept to their quotas for long.
func (x *Excess) drop(now time.Time) {
	for project, e := range x.of {
		if now.Sub(e.at) > shutOutForgiven && now.Sub(e.until) > shutOutForgiven {
			delete(x.of, project)
		}
	}
}

func (x *Excess) shutOut(project uuid.UUID, e *excess, now time.Time) {
	if now.Sub(e.until) > shutOutForgiven {
		e.times = 0
	}
	const doubled = 10 // more often would be longer than longestShutOut
	e.until = now.Add(min(x.First<<min(e.times, doubled), longestShutOut))
	e.times++
	e.events = 0
	select {
	case x.shut <- struct{}{}:
	default: // it is known that there is somebody
	}
	x.log.Warn("a project goes on sending more events than its quota lets be applied, or than the log takes: the embedded server shuts its producers out for a while, each time for longer",
		"project", project, "until", e.until.UTC().Format(time.RFC3339), "seconds", e.until.Sub(now).Seconds())
}

// Shut gets a value once the producers of another project are shut out.
func (x *Excess) Shut() <-chan struct{} { return x.shut }

// Until is when the producers of a project are let in again; zero: they are not shut out.
// A nil Excess shuts nobody out.
func (x *Excess) Until(project uuid.UUID) time.Time {
	if x == nil {
		return time.Time{}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.of[project]; e != nil && x.clock().Before(e.until) {
		return e.until
	}
	return time.Time{}
}

// Projects are those whose producers are shut out, and until when.
func (x *Excess) Projects() map[uuid.UUID]time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	now, out := x.clock(), map[uuid.UUID]time.Time{}
	for project, e := range x.of {
		if now.Before(e.until) {
			out[project] = e.until
		}
	}
	return out
}

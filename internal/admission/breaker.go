package admission

import (
	"fmt"
	"sync"
	"time"
)

// How often in a row a policy runs out of time until it is suspended, and for how
// long: twice as long each time that it does so again.
const (
	timeoutsInARow  = 3
	firstSuspension = time.Second
	longSuspension  = time.Minute
)

// breaker suspends a policy that runs out of time again and again. The zero value is
// of one that does not.
type breaker struct {
	mu       sync.Mutex
	timeouts int // in a row
	until    time.Time
	wait     time.Duration
	trying   bool // the suspension is over, and one evaluation tries
}

// admit lets an evaluation begin, or says why the policy is suspended.
func (b *breaker) admit(c *Compiled, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeouts < timeoutsInARow {
		return nil
	}
	if b.trying || now.Before(b.until) {
		return b.suspended(c)
	}
	b.trying = true
	return nil
}

// refuses says that the policy was suspended while an evaluation waited.
func (b *breaker) refuses(c *Compiled) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeouts < timeoutsInARow || b.trying {
		return nil
	}
	return b.suspended(c)
}

func (b *breaker) suspended(c *Compiled) error { return c.failed(CodeSuspended, "", "%s", b.reason()) }

func (b *breaker) reason() string {
	return fmt.Sprintf("it ran out of time %d times in a row; it is not asked again before %s", b.timeouts, b.until.UTC().Format(time.RFC3339))
}

// ended takes in how an evaluation ended: it ran out of its own time, it did not, or
// nobody waited for it any more and it says nothing.
func (b *breaker) ended(now time.Time, ranOut, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	switch {
	case !known:
	case !ranOut:
		b.timeouts, b.wait = 0, 0
	default:
		if b.timeouts++; b.timeouts >= timeoutsInARow {
			b.wait = min(max(2*b.wait, firstSuspension), longSuspension)
			b.until = now.Add(b.wait)
		}
	}
}

// warning says that the policy is suspended; empty when it is not.
func (b *breaker) warning() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeouts < timeoutsInARow {
		return ""
	}
	return "every request that it matches fails: " + b.reason()
}

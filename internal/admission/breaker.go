package admission

import (
	"fmt"
	"sync"
	"time"
)

// How often in a row the requests of one asker run out of time in a policy until it is
// suspended for that asker, and for how long: twice as long each time that it happens
// again.
const (
	timeoutsInARow  = 3
	firstSuspension = time.Second
	longSuspension  = time.Minute
	maxAskers       = 1000 // that a policy remembers; lanes bound what the others cost
)

// asker is whose requests are counted together. What a policy costs depends on what it
// is asked about, so that the slow requests of one asker say nothing about another's.
type asker struct{ caller, tenant, user string }

func (r *Request) asker() asker { return asker{r.Caller, r.TenantID, r.UserID} }

// breaker suspends a policy for those whose requests run out of time in it again and
// again, and for nobody else. The zero value suspends it for nobody.
type breaker struct {
	mu sync.Mutex
	of map[asker]*timeouts // of those whose last request ran out of time
}

// timeouts are those of one asker.
type timeouts struct {
	inARow int
	until  time.Time
	wait   time.Duration
	trying bool // the suspension is over, and one evaluation tries
}

func (t *timeouts) suspended() bool { return t != nil && t.inARow >= timeoutsInARow }

// admit lets an evaluation begin, or says why the policy is suspended.
func (b *breaker) admit(c *Compiled, who asker, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[who]
	if !t.suspended() {
		return nil
	}
	if t.trying || now.Before(t.until) {
		return t.refuses(c)
	}
	t.trying = true
	return nil
}

// refuses says that the policy was suspended while an evaluation waited.
func (b *breaker) refuses(c *Compiled, who asker) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.of[who]; t.suspended() && !t.trying {
		return t.refuses(c)
	}
	return nil
}

func (t *timeouts) refuses(c *Compiled) error {
	return c.failed(CodeSuspended, "", "it ran out of time %d times in a row for who asks; it is not asked again for them before %s", t.inARow, t.until.UTC().Format(time.RFC3339))
}

// ended takes in how an evaluation ended: it ran out of its own time, it did not, or
// nobody waited for it any more and it says nothing.
func (b *breaker) ended(who asker, now time.Time, ranOut, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[who]
	if t != nil {
		t.trying = false
	}
	switch {
	case !known:
	case !ranOut:
		delete(b.of, who)
	default:
		if t == nil {
			t = b.remember(who)
		}
		if t.inARow++; t.suspended() {
			t.wait = min(max(2*t.wait, firstSuspension), longSuspension)
			t.until = now.Add(t.wait)
		}
	}
}

// remember makes room for an asker. Whoever is forgotten for that begins again.
func (b *breaker) remember(who asker) *timeouts {
	if b.of == nil {
		b.of = map[asker]*timeouts{}
	}
	for other, t := range b.of {
		if len(b.of) < maxAskers {
			break
		}
		if !t.trying {
			delete(b.of, other)
		}
	}
	t := &timeouts{}
	b.of[who] = t
	return t
}

// warning says for how many the policy is suspended; empty when it is for nobody.
func (b *breaker) warning() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, most := 0, &timeouts{}
	for _, t := range b.of {
		if t.suspended() {
			n++
			if t.until.After(most.until) {
				most = t
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("requests that it matches fail, of %d who ask: for them it ran out of time %d times in a row or more; the last of them is answered again from %s on",
		n, timeoutsInARow, most.until.UTC().Format(time.RFC3339))
}

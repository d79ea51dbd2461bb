// Package backoff is how long to wait before something is tried again: twice as long
// each time, up to a bound, and each time by chance a part of that less. So those that
// failed together do not come back together. Nothing here gives up; the caller's context
// ends the waiting.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// First and longest pause of a Backoff that names none.
const (
	DefaultLeast = 25 * time.Millisecond
	DefaultMost  = 2 * time.Second
)

// Backoff is a pause that grows from Least to Most. The zero value is ready. It is one
// goroutine's.
type Backoff struct {
	Least time.Duration // before the second attempt; 0: DefaultLeast
	Most  time.Duration // 0: DefaultMost; Least, if that is longer

	grow *backoff.ExponentialBackOff
}

// Steady is a pause that does not grow.
func Steady(pause time.Duration) Backoff { return Backoff{Least: pause, Most: pause} }

// Next is the next pause: of the length that it has grown to, between half and all.
func (b *Backoff) Next() time.Duration {
	if b.grow == nil {
		least, most := b.Least, b.Most
		if least == 0 {
			least = DefaultLeast
		}
		if most == 0 {
			most = DefaultMost
		}
		// The library's pauses lie around a length, and ours below it.
		b.grow = &backoff.ExponentialBackOff{
			InitialInterval: least * 3 / 4, MaxInterval: max(least, most) * 3 / 4,
			Multiplier: 2, RandomizationFactor: 1.0 / 3,
		}
	}
	return b.grow.NextBackOff()
}

// Pause waits for Next, or until ctx ends: its error.
func (b *Backoff) Pause(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Reset begins again with Least.
func (b *Backoff) Reset() { b.grow = nil }

// AtLeast is a pause that somebody asked for, and by chance up to a quarter more.
func AtLeast(asked time.Duration) time.Duration { return asked + rand.N(max(asked, 0)/4+1) }

// Sleep waits, or until ctx ends: its error. It is nil at once if d is not positive.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package plane

import (
	"context"
	"time"
)

// The fold is busy from so many events between two looks on, which is a quarter of what two cores
// fold, until there were fewer at so many looks in a row.
const (
	busyLook   = 100 * time.Millisecond
	busyEvents = 1_000
	quietLooks = 20
)

// busyness is whether a fold is busy.
type busyness struct {
	busy  bool
	quiet int // looks in a row at which it was not
}

// note takes what was folded between two looks, and reports whether that changes anything.
func (b *busyness) note(events uint64) (changed bool) {
	was := b.busy
	switch {
	case events >= busyEvents:
		b.busy, b.quiet = true, 0
	case b.busy:
		b.quiet++
		b.busy = b.quiet < quietLooks
	}
	return b.busy != was
}

// watchBusy calls say when the fold begins to be busy, and when that is over, until ctx ends. What is
// at rest is not looked at.
func watchBusy(ctx context.Context, applied func() uint64, changed func() <-chan struct{}, say func(busy bool)) error {
	var b busyness
	for at := applied(); ; {
		if !b.busy {
			select {
			case <-changed():
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-time.After(busyLook):
		case <-ctx.Done():
			return nil
		}
		now := applied()
		if b.note(now - at) {
			say(b.busy)
		}
		at = now
	}
}

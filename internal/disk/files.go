package disk

import (
	"context"
	"time"
)

// WatchFiles looks whether the files that the log's server writes to are still
// there, until ctx ends or they are not: what is written then is nowhere, and
// alarm is called with why. vanished is why they are not there; nil: they are.
func (g *Guard) WatchFiles(ctx context.Context, vanished func() error, alarm func(error)) error {
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := vanished(); err != nil {
			g.Vanish()
			alarm(err)
			return nil
		}
	}
}

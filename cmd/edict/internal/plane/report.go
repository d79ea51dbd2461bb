package plane

import (
	"context"
	"time"

	"github.com/edictdev/edict/internal/streams"
)

// report puts what the fold rejected where producers look for it. The fold
// never waits for it; after a crash some are written again, which changes
// nothing.
func (p *Plane) report(ctx context.Context) error {
	for {
		changed := p.store.Changed()
		err := p.reportAll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var again <-chan time.Time
		if err != nil {
			const pause = time.Second
			p.log.Warn("rejected events could not be reported yet; trying again", "error", err)
			again = time.After(pause)
			changed = nil
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Plane) reportAll(ctx context.Context) error {
	const page = 256
	for {
		list, err := p.store.Unreported(page)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, r := range list {
			if err := p.rejected.Write(ctx, r); err != nil {
				return err
			}
		}
		p.tellRejected(list)
		if err := p.store.Reported(list[len(list)-1].Seq); err != nil {
			return err
		}
	}
}

// tellRejected names the first few rejected events of a page, and counts the
// rest: a producer that does everything wrong must not fill a disk with it.
func (p *Plane) tellRejected(list []streams.Rejection) {
	const most = 10
	for i, r := range list {
		if i == most {
			p.log.Warn("more events rejected", "events", len(list)-most, "seq", list[len(list)-1].Seq)
			return
		}
		p.log.Warn("event rejected", "seq", r.Seq, "code", r.Code, "subject", r.Subject)
	}
}

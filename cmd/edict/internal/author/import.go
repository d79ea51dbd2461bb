package author

import (
	"context"
	"hash/maphash"
	"iter"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// Import creates or revises policies as they come, and holds few of them at a
// time: what it keeps of each is its slug and two ids. Drafts of one slug are
// applied in their order. report is called with each result as soon as it is
// known, from any goroutine. An error means that the plane is gone or ctx has ended,
// and the remaining drafts were not tried.
func Import(ctx context.Context, p Policies, project uuid.UUID, drafts iter.Seq[Draft], report func(Draft, Result)) error {
	a := applier{policies: p, project: project}
	if err := a.look(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	var lanes [workers]chan Draft
	for i := range lanes {
		lanes[i] = make(chan Draft, 1)
		g.Go(func() error { return a.lane(gctx, lanes[i], report) })
	}
	g.Go(func() error {
		defer func() {
			for _, l := range lanes {
				close(l)
			}
		}()
		seed := maphash.MakeSeed()
		for d := range drafts {
			select {
			case lanes[maphash.String(seed, d.Slug)%workers] <- d:
			case <-gctx.Done():
				return nil
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// lane applies drafts one after the other until there are no more, or the
// plane is gone.
func (a *applier) lane(ctx context.Context, drafts <-chan Draft, report func(Draft, Result)) error {
	for d := range drafts {
		if ctx.Err() != nil {
			return nil
		}
		r := a.apply(ctx, d)
		if err := gone(r.Err); err != nil {
			return err
		}
		if ctx.Err() != nil && r.Err != nil {
			return nil // interrupted, not refused
		}
		if r.Err == nil {
			a.remember(r.Policy)
		}
		report(d, r)
	}
	return nil
}

package projector

import (
	"context"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/edictdev/edict/internal/streams"
)

// Log is what Run asks of the log.
type Log interface {
	// Follow yields contiguous batches of events, oldest first, until ctx ends.
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
	getter
}

type getter interface {
	// Get returns one event, or streams.ErrNotFound.
	Get(ctx context.Context, seq uint64) (streams.Message, error)
}

// A fold under way: so many batches may be prepared before their turn, and so
// many wait for the disk. One sync acknowledges all that were written before
// it, so a slow disk is waited for together.
const (
	preparedAhead = 2
	maxUnsynced   = 16
)

// They are bounded by what they weigh, too: a few large events are as much as a
// hundred thousand small ones.
const (
	preparedBytes = 16 << 20
	unsyncedBytes = 32 << 20
)

// prepared is a batch made ready for the fold; err is what follows it.
type prepared struct {
	entries []entry
	err     error
	taken   int64 // bytes, of the budget of its queue
}

// budget bounds the bytes of a queue. What is larger than all of it takes all.
type budget struct {
	most int64
	left *semaphore.Weighted
}

func newBudget(most int64) budget { return budget{most, semaphore.NewWeighted(most)} }

// take waits until so many bytes are left and says how many were taken; an error is
// ctx's.
func (b budget) take(ctx context.Context, bytes int) (taken int64, err error) {
	taken = min(int64(bytes), b.most)
	return taken, b.left.Acquire(ctx, taken)
}

func (b budget) give(taken int64) { b.left.Release(taken) }

// Run checks that log is the one the store was folded from, then folds until
// ctx ends, when it returns nil. What the log yields is decoded while what came
// before it is folded, and folded while what came before that is synced;
// Applied rises only with what is on disk. A log that does not answer is asked
// again.
func (p *Projector) Run(ctx context.Context, log Log) error {
	err := streams.UntilAnswered(ctx, func() error { return p.Verify(ctx, log) })
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan prepared, preparedAhead)
	ahead, behind := newBudget(preparedBytes), newBudget(unsyncedBytes)
	go func() {
		defer close(batches)
		prepareAll(ctx, log, p.newVerifier(), batches, ahead)
	}()
	unsynced := make(chan written, maxUnsynced)
	synced := make(chan error, 1)
	go func() { synced <- p.acknowledgeEach(unsynced, behind, cancel) }()
	err = p.foldEach(batches, ahead, unsynced, behind)
	close(unsynced)
	cancel()
	for range batches { // its reader is to have ended, too
	}
	if failed := <-synced; failed != nil {
		return p.sound(failed)
	}
	return p.sound(err)
}

// acknowledgeEach makes batches visible as they become durable, and stops the
// fold when one cannot. The rest is waited for all the same: who closes the
// store must find no write of ours under way.
func (p *Projector) acknowledgeEach(unsynced <-chan written, behind budget, stop func()) (err error) {
	for w := range unsynced {
		behind.give(w.taken)
		if err != nil {
			w.abandon()
			continue
		}
		if err = p.acknowledge(w); err != nil {
			stop()
		}
	}
	return err
}

// prepareAll makes ready what the log yields from where v stands on, until ctx
// ends or an error has been passed on. What is passed takes bytes of ahead, which
// its taker gives back.
func prepareAll(ctx context.Context, log Log, v *verifier, to chan<- prepared, ahead budget) {
	pass := func(b prepared) bool {
		var err error
		if b.taken, err = ahead.take(ctx, weigh(b.entries)); err != nil {
			return false
		}
		select {
		case to <- b:
			return b.err == nil
		case <-ctx.Done():
			return false
		}
	}
	g := gathering{since: time.Now()}
	for msgs, err := range log.Follow(ctx, v.next) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pass(prepared{err: fmt.Errorf("follow log: %w", err)})
			return
		}
		var b prepared
		b.entries, b.err = v.take(msgs)
		if !pass(b) {
			return
		}
		g.after(ctx, len(msgs))
	}
}

// gathering has a busy log folded in batches that are worth their cost: each
// syncs, signs and wakes whoever waits. A log that is not busy is folded event by
// event, at once.
type gathering struct {
	since  time.Time // when it began to count
	events int       // that came since
	busy   bool
}

const (
	gatherEvery = 10 * time.Millisecond // how often it is asked whether the log is busy
	busyEvents  = 50                    // it is from so many on within that
	gatherFor   = time.Millisecond
	gatherBelow = 100 // a larger batch is worth its cost
)

// after waits for more, after n events were passed on, if the log is busy and
// they were few.
func (g *gathering) after(ctx context.Context, n int) {
	g.events += n
	if now := time.Now(); now.Sub(g.since) >= gatherEvery {
		g.busy = g.events*int(gatherEvery) >= busyEvents*int(now.Sub(g.since))
		g.since, g.events = now, 0
	}
	if !g.busy || n >= gatherBelow {
		return
	}
	t := time.NewTimer(gatherFor)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// foldEach writes batches until there are no more, or one cannot be.
func (p *Projector) foldEach(batches <-chan prepared, ahead budget, unsynced chan<- written, behind budget) error {
	for b := range batches {
		ahead.give(b.taken)
		for len(b.entries) > 0 {
			w, err := p.write(b.entries)
			if err != nil {
				return err
			}
			if w.batch != nil {
				// Whoever acknowledges gives it back, whatever becomes of the disk.
				w.taken, _ = behind.take(context.Background(), w.batch.Len())
			}
			unsynced <- w
			b.entries = b.entries[len(w.made):]
		}
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// next is the sequence the fold waits for.
func (p *Projector) next() uint64 { return max(p.Applied()+1, p.opt.First) }

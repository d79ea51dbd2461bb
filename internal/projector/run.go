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

// So many batches may be prepared before their turn, and they are bounded by what
// they weigh, too: a few large events are as much as a hundred thousand small ones.
const (
	preparedAhead = 2
	preparedBytes = 16 << 20
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
// before it is folded. A log that does not answer is asked again.
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
	ahead := newBudget(preparedBytes)
	go func() {
		defer close(batches)
		prepareAll(ctx, log, p.newVerifier(), batches, ahead)
	}()
	err = p.foldEach(batches, ahead)
	cancel()
	for range batches { // its reader is to have ended, too
	}
	return p.sound(err)
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

// foldEach writes batches until there are no more, or one cannot be. Where nothing
// comes for a while, what was written is flushed.
func (p *Projector) foldEach(batches <-chan prepared, ahead budget) error {
	quiet := time.NewTicker(flushEvery)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			if err := p.makeRoom(); err != nil {
				return err
			}
		case b, more := <-batches:
			if !more {
				return nil
			}
			ahead.give(b.taken)
			if err := p.foldBatch(b); err != nil {
				return err
			}
		}
	}
}

// foldBatch writes one, and returns what follows it.
func (p *Projector) foldBatch(b prepared) error {
	for len(b.entries) > 0 {
		w, err := p.write(b.entries)
		if err != nil {
			return err
		}
		if err := p.acknowledge(w); err != nil {
			return err
		}
		b.entries = b.entries[len(w.made):]
	}
	return b.err
}

// next is the sequence the fold waits for.
func (p *Projector) next() uint64 { return max(p.Applied()+1, p.opt.First) }

package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

// lane announces some of the owned partitions, one batch in flight, so that
// each partition has at most one.
type lane struct {
	a     *announcer
	inbox chan *partition
	parts []*partition // owned, follow or sync decided
	turn  int          // where the next batch begins, so that no partition starves another
	limit int          // messages a batch may have; halved when the server refuses a size
	doubt int          // batches in a row that were refused or in doubt
}

func newLane(a *announcer) *lane {
	return &lane{a: a, inbox: make(chan *partition, a.partitions), limit: a.stream.MaxBatch()}
}

// Run announces until ctx ends.
func (l *lane) Run(ctx context.Context) error {
	defer func() {
		for _, p := range l.parts {
			p.forget()
		}
	}()
	pause := time.Duration(0)
	for ctx.Err() == nil {
		changed, asked := l.a.store.Changed(), l.a.board.syncAsked()
		_, dealt := l.a.share.Mine()
		did, err := l.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errStore):
			return err
		case err != nil:
			pause = min(max(2*pause, backoffLeast), backoffMost)
			if pause > backoffMost/2 {
				l.a.log.Warn("announcements wait for the node stream; trying again", "error", err)
			}
			sleep(ctx, pause)
			continue
		}
		pause = 0
		if did {
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-dealt:
		case <-asked:
		case p := <-l.inbox:
			l.parts = append(l.parts, p)
		}
	}
	return nil
}

// errStore marks an error of the read model: announcing cannot go on.
var errStore = errors.New("read model")

// step publishes one batch, if there is anything to tell.
func (l *lane) step(ctx context.Context) (did bool, err error) {
	l.adopt()
	l.noticeLost()
	box := l.a.store.Outbox()
	defer box.Close()
	b, err := l.collect(box)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errStore, err)
	}
	if len(b.parts) == 0 {
		return false, nil
	}
	msgs, err := b.build(l.a.seal)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errStore, err)
	}
	if !l.holds(b) {
		return true, nil // signing took its time; what is not ours is given back next
	}
	if len(msgs) > len(b.parts)+1 && fault.Sometimes(fault.SplitBatch) {
		msgs = msgs[:len(msgs)-1]
	}
	began := time.Now()
	fault.Pass(fault.PublishBefore)
	first, err := l.a.stream.PublishBatch(ctx, msgs)
	fault.Pass(fault.PublishAfter)
	switch {
	case err == nil:
		b.stored(first)
		if l.a.traced != nil {
			b.report(l.a.traced, began)
		}
		l.doubt = 0
		l.limit = min(2*l.limit, l.a.stream.MaxBatch())
		l.a.metrics.Announced(b.announcements(), len(msgs))
		return true, nil
	case errors.Is(err, streams.ErrTooLarge):
		l.limit = max(2, min(l.limit, len(msgs))/2)
		return false, err
	case notStored(err):
		return false, err
	}
	return l.settle(ctx, b, err)
}

// settle reads the fences of a batch that was refused or is in doubt, until
// they can be read: nothing else may be done with its partitions before.
func (l *lane) settle(ctx context.Context, b *batch, cause error) (did bool, err error) {
	for pause := backoffLeast; ; pause = min(2*pause, backoffMost) {
		lost, err := l.a.settle(ctx, b.partitions(), cause)
		if err == nil {
			for p, as := range lost {
				l.giveBack(p, as)
			}
			if l.doubt++; l.doubt > 1 && len(lost) == 0 {
				return false, cause // ours still, and refused again
			}
			return true, nil
		}
		if ctx.Err() != nil {
			return false, err
		}
		sleep(ctx, pause)
	}
}

// adopt takes in what the taker handed over.
func (l *lane) adopt() {
	for {
		select {
		case p := <-l.inbox:
			l.parts = append(l.parts, p)
		default:
			return
		}
	}
}

// holds reports whether every partition of b may still be announced.
func (l *lane) holds(b *batch) bool {
	return !slices.ContainsFunc(b.parts, func(x part) bool { return !l.a.share.Holds(x.p.id) })
}

// noticeLost gives up partitions that left the share, and those whose fence, as
// it passed the hub, is another owner's: their batch would be refused anyhow.
func (l *lane) noticeLost() {
	for i := 0; i < len(l.parts); {
		p := l.parts[i]
		if !l.a.share.Holds(p.id) {
			p.forget()
			l.giveBack(p, released)
			continue
		}
		f := l.a.board.fence(p.id)
		if f.Seq > p.fence.Seq && f.Owner != p.owner && !fault.Always(fault.OldOwner) {
			p.forget()
			l.giveBack(p, lostTo(f.Fence))
			continue
		}
		i++
	}
}

// giveBack returns a partition to the taker.
func (l *lane) giveBack(p *partition, as outcome) {
	for i := range l.parts {
		if l.parts[i] == p {
			l.parts = append(l.parts[:i], l.parts[i+1:]...)
			break
		}
	}
	l.a.returned <- returned{p, as}
}

// collect fills a batch from the outbox, partitions in turn.
func (l *lane) collect(box Outbox) (*batch, error) {
	b := &batch{limit: l.limit}
	var dropped []*partition
	l.turn++
	for i := range l.parts {
		p := l.parts[(i+l.turn)%len(l.parts)]
		if b.full() {
			break
		}
		if p.sync == nil && !p.canFollow(box.EdgesFrom(p.id)) {
			dropped = append(dropped, p)
			continue
		}
		x, err := l.part(p, box, b)
		if err != nil {
			return nil, err
		}
		if x != nil {
			b.add(*x)
		}
	}
	for _, p := range dropped {
		// Edges were dropped under our feet. A sync needs a fence of its own,
		// because messages of our last batch stand after the one we have.
		p.forget()
		l.giveBack(p, open)
	}
	return b, nil
}

// part cuts what p has to tell to the room in b; nil: nothing.
func (l *lane) part(p *partition, box Outbox, b *batch) (*part, error) {
	if p.sync != nil {
		return l.syncPart(p, b)
	}
	return l.followPart(p, box, b)
}

// syncPart tells differences; the part that tells the last ones ends the sync.
func (l *lane) syncPart(p *partition, b *batch) (*part, error) {
	x := &part{p: p, fence: p.fence.Fence}
	rest := p.sync.rest(p.fence.Fence)
	left := b.room() - 1 // its fence
	bytes := b.bytes
	for _, d := range rest {
		if len(x.lines) == left || bytes >= batchBytes {
			break
		}
		next, err := l.a.seal.line(d, p.sync.of.source)
		if err != nil {
			return nil, err
		}
		if len(x.lines) > 0 && bytes+next.room() > batchBytes {
			break
		}
		x.lines = append(x.lines, next)
		bytes += next.room()
	}
	if len(x.lines) == len(rest) && len(x.lines) < left {
		x.ends = true
		x.fence.Mode, x.fence.After = Follow, End(p.sync.seq())
		return x, nil
	}
	x.fence.Mode, x.fence.After = Sync, x.lines[len(x.lines)-1].key
	return x, nil
}

// followPart tells edges above the position, in order, cut anywhere.
func (l *lane) followPart(p *partition, box Outbox, b *batch) (*part, error) {
	if !p.scan && box.LastEdge(p.id) <= p.told {
		return nil, nil
	}
	if fault.Picks(fault.SkippedPartition, p.id, l.a.partitions) {
		return nil, nil
	}
	x := &part{p: p, fence: p.fence.Fence}
	left := b.room() - 1 // its fence
	bytes := b.bytes
	cut := false
	for e, err := range box.Edges(p.id, p.fence.After.Seq) {
		if err != nil {
			return nil, err
		}
		for a := range expand(e) {
			if a.key.Compare(p.fence.After) <= 0 {
				continue
			}
			if a.gone && fault.Sometimes(fault.LostTombstone) {
				continue
			}
			next, err := l.a.seal.line(a, box)
			if err != nil {
				return nil, err
			}
			tooBig := bytes > 0 && bytes+next.room() > batchBytes
			if cut = len(x.lines) == left || tooBig; cut {
				break
			}
			x.lines = append(x.lines, next)
			bytes += next.room()
		}
		if cut {
			break
		}
	}
	if len(x.lines) == 0 {
		if !cut {
			p.told, p.scan = box.Seq(), false
		}
		return nil, nil
	}
	x.fence.Mode, x.fence.After = Follow, x.lines[len(x.lines)-1].key
	if !cut {
		x.told = box.Seq()
	}
	return x, nil
}

// expand yields what an edge tells, ascending by node: the nodes that have the
// row now and those that lost it, as they were at that event.
func expand(e projector.StoredEdge) func(yield func(announcement) bool) {
	return func(yield func(announcement) bool) {
		have, lost := e.Have, e.Lost
		name := nameOf(e)
		for len(have)+len(lost) > 0 {
			a := announcement{policy: e.Policy, artifact: e.Artifact, revision: e.Revision, fingerprint: e.Fingerprint, time: e.Time, trace: e.Trace}
			if len(lost) == 0 || len(have) > 0 && have[0] < lost[0] {
				a.key = Key{e.Seq, name, have[0]}
				have = have[1:]
			} else {
				a.key = Key{e.Seq, name, lost[0]}
				a.gone, a.fingerprint = true, compiler.Empty.Fingerprint
				lost = lost[1:]
			}
			if !yield(a) {
				return
			}
		}
	}
}

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/streams"
	"golang.org/x/sync/errgroup"
)

// announcer turns the edges of the partitions it owns into messages of the
// node stream (design section 6). One goroutine takes partitions and starts
// syncs, so that one scan of the stream serves all of them; it hands owned
// partitions to the lanes, which announce, and gets those back that are lost
// or need a sync.
type announcer struct {
	store      Store
	stream     Stream
	seal       *sealer
	board      *board
	metrics    Metrics
	traced     func(Traced)
	log        *slog.Logger
	partitions int           // of the plane
	pause      time.Duration // before a contested partition is taken anew
	share      Share

	parts    []*partition // that may ever be ours
	lanes    []*lane
	returned chan returned
}

// returned is a partition that a lane gives back, and how it came to that.
type returned struct {
	p  *partition
	as outcome
}

// backoff bounds the pauses between attempts after an error.
const (
	backoffLeast = 20 * time.Millisecond
	backoffMost  = 2 * time.Second
)

func newAnnouncer(r *Relay, stream Stream) *announcer {
	a := &announcer{
		store: r.store, stream: stream, board: r.board, metrics: r.opt.Metrics, traced: r.opt.Traced, log: r.opt.Log,
		seal:       newSealer(r.keys, r.logID, stream.TombstoneTTL(), stream.MaxMessage()),
		partitions: r.opt.Partitions, pause: r.opt.Contested, share: r.opt.Share,
	}
	if a.share == nil {
		a.share = fixed(r.opt.Announce)
	}
	for range min(r.opt.Lanes, max(len(r.opt.Announce), 1)) {
		a.lanes = append(a.lanes, newLane(a))
	}
	for _, id := range r.opt.Announce {
		a.parts = append(a.parts, &partition{id: id, owner: r.owner, log: r.logID})
	}
	a.returned = make(chan returned, len(a.parts))
	return a
}

// Run announces until ctx ends. Only a read model that cannot be read is an
// error; whatever the stream answers is tried again.
func (a *announcer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range a.lanes {
		g.Go(func() error { return l.Run(ctx) })
	}
	g.Go(func() error { return a.take(ctx) })
	return g.Wait()
}

// take brings every partition of the share that is not owned into a lane,
// again and again.
func (a *announcer) take(ctx context.Context) error {
	due := map[*partition]time.Time{}
	lent := map[*partition]bool{} // to a lane
	_, told := a.share.(fixed)
	say := newHoldings(a.log, a.pause, !told)
	for ctx.Err() == nil {
		changed := a.review(due, lent, say)
		ready, next := dueBy(due, time.Now())
		if len(ready) > 0 {
			for p, as := range a.takeNow(ctx, ready) {
				say.note(p.id, as)
				if as == kept {
					delete(due, p)
					lent[p] = true
					a.lanes[p.id%len(a.lanes)].inbox <- p
				} else {
					due[p] = a.again(p, as)
				}
			}
			say.tell()
			continue
		}
		if say.waits() {
			next = min(next, gatherLosses)
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case x := <-a.returned:
			say.note(x.p.id, x.as)
			delete(lent, x.p)
			due[x.p] = a.again(x.p, x.as)
		case <-changed:
		case <-timer.C:
			say.tell()
		}
		timer.Stop()
	}
	return nil
}

// review makes what is due what the share says: partitions that came to it,
// and none that left it. Those in a lane are given back by it.
func (a *announcer) review(due map[*partition]time.Time, lent map[*partition]bool, say *holdings) (changed <-chan struct{}) {
	ids, changed := a.share.Mine()
	for _, p := range a.parts {
		_, mine := slices.BinarySearch(ids, p.id)
		_, waits := due[p]
		switch {
		case mine && !waits && !lent[p]:
			due[p] = time.Time{}
		case !mine && waits:
			p.forget()
			delete(due, p)
			a.board.lost(p.id, time.Time{})
			say.note(p.id, released)
		}
	}
	return changed
}

// holding splits off the partitions that may not be announced now.
func (a *announcer) holding(ps []*partition, out map[*partition]outcome) (held []*partition) {
	for _, p := range ps {
		if a.share.Holds(p.id) {
			held = append(held, p)
		} else {
			p.forget()
			out[p] = released
		}
	}
	return held
}

// dueBy lists what is due, or says how long nothing is.
func dueBy(due map[*partition]time.Time, now time.Time) (ready []*partition, next time.Duration) {
	next = time.Hour
	for p, at := range due {
		if wait := at.Sub(now); wait <= 0 {
			ready = append(ready, p)
		} else {
			next = min(next, wait)
		}
	}
	return ready, next
}

// again says when a partition that was not kept is taken anew, and notes one
// that another owner holds.
func (a *announcer) again(p *partition, as outcome) time.Time {
	now := time.Now()
	if as != contested {
		return now.Add(backoffLeast)
	}
	a.board.lost(p.id, now)
	return now.Add(a.pause)
}

// takeNow tries to take ps and says of each what came of it: a partition that
// was kept is owned and has its work set out.
func (a *announcer) takeNow(ctx context.Context, ps []*partition) map[*partition]outcome {
	out := make(map[*partition]outcome, len(ps))
	giveUp := func(err error) map[*partition]outcome {
		if ctx.Err() == nil {
			a.log.Warn("partitions could not be taken; trying again", "partitions", len(ps), "error", err)
			sleep(ctx, time.Second)
		}
		for _, p := range ps {
			p.forget()
			out[p] = open
		}
		return out
	}
	if err := a.readFences(ctx, ps); err != nil {
		return giveUp(err)
	}
	if err := a.foldTo(ctx, ps); err != nil {
		return giveUp(err)
	}
	ps = a.holding(ps, out) // the fold may have taken long
	taken, err := a.claim(ctx, ps, out)
	if err == nil {
		err = a.setOut(ctx, taken)
	}
	if err != nil {
		return giveUp(err)
	}
	for _, p := range taken {
		out[p] = kept
		a.board.lost(p.id, time.Time{})
	}
	return out
}

// readFences reads the fences of all ps at once.
func (a *announcer) readFences(ctx context.Context, ps []*partition) error {
	fences, err := lastFences(ctx, a.stream, a.partitions)
	if err != nil {
		return err
	}
	for _, p := range ps {
		p.see(fences[p.id])
	}
	return nil
}

// foldTo waits until the rows are as new as everything announced in ps.
func (a *announcer) foldTo(ctx context.Context, ps []*partition) error {
	var seq uint64
	for _, p := range ps {
		seq = max(seq, p.fence.After.Seq)
	}
	return a.store.Wait(ctx, seq)
}

// claim publishes the fences of ps, alone, and returns those that are ours
// after it; out says what became of the others.
func (a *announcer) claim(ctx context.Context, ps []*partition, out map[*partition]outcome) (taken []*partition, err error) {
	for len(ps) > 0 {
		group := ps[:min(len(ps), a.stream.MaxBatch())]
		ps = ps[len(group):]
		got, err := a.claimGroup(ctx, group, out)
		if err != nil {
			return nil, err
		}
		taken = append(taken, got...)
	}
	return taken, nil
}

// claimTries is how often partitions are claimed in one batch. Each refusal
// finds those that moved: who had them was announcing still.
const claimTries = 4

// claimGroup claims a group in one batch, where that is refused without those
// that others took, and in the end partition by partition.
func (a *announcer) claimGroup(ctx context.Context, group []*partition, out map[*partition]outcome) (taken []*partition, err error) {
	for try := 1; len(group) > 0; try++ {
		now, left := group, []*partition(nil)
		if try > claimTries {
			now, left = group[:1], slices.Clone(group[1:])
		}
		refused, err := a.claimTogether(ctx, now)
		if err != nil {
			return nil, err
		}
		for _, p := range now {
			as, was := refused[p]
			if !was {
				taken = append(taken, p)
				delete(out, p)
				continue
			}
			out[p] = as
			if as == open && len(now) > 1 {
				left = append(left, p)
			}
		}
		if group, err = a.anew(ctx, left, out); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// anew reads the fences of partitions whose claim was refused, perhaps because
// of a neighbour, and returns those whose rows are new enough.
func (a *announcer) anew(ctx context.Context, left []*partition, out map[*partition]outcome) (ready []*partition, err error) {
	if len(left) == 0 {
		return nil, nil
	}
	if err := a.readFences(ctx, left); err != nil {
		return nil, err
	}
	for _, p := range left {
		if p.fence.After.Seq > a.store.Applied() {
			out[p] = open
		} else {
			ready = append(ready, p)
		}
	}
	return a.holding(ready, out), nil
}

// claimTogether publishes one batch of claims and returns those of group that
// are not ours after it.
func (a *announcer) claimTogether(ctx context.Context, group []*partition) (refused map[*partition]outcome, err error) {
	b := claims(group)
	msgs, err := b.build(a.seal)
	if err != nil {
		return nil, err
	}
	fault.Pass(fault.PublishBefore)
	first, err := a.stream.PublishBatch(ctx, msgs)
	fault.Pass(fault.PublishAfter)
	if err == nil {
		b.stored(first)
		return nil, nil
	}
	if notStored(err) {
		return nil, err
	}
	return a.settle(ctx, group, err)
}

// notStored reports whether the server refused a batch for a reason that its
// fences do not tell: it is tried again after a pause.
func notStored(err error) bool {
	return errors.Is(err, streams.ErrBusy) || errors.Is(err, streams.ErrTooLarge) ||
		errors.Is(err, streams.ErrMessageTooLarge) || errors.Is(err, streams.ErrStorage)
}

// settle reads the fences of a batch that was refused or whose acknowledgement
// was lost, and returns the partitions that are not ours after it.
func (a *announcer) settle(ctx context.Context, ps []*partition, cause error) (map[*partition]outcome, error) {
	a.metrics.FenceConflict()
	a.log.Debug("a batch was refused or is in doubt; reading its fences", "partitions", len(ps), "error", cause)
	fences, err := lastFences(ctx, a.stream, a.partitions)
	if err != nil {
		return nil, err
	}
	lost := map[*partition]outcome{}
	for _, p := range ps {
		if as := p.settle(fences[p.id]); as != kept {
			lost[p] = as
		}
	}
	return lost, nil
}

// setOut decides for every partition just taken between follow and sync; one
// scan serves all that need it.
func (a *announcer) setOut(ctx context.Context, taken []*partition) error {
	var behind []*partition
	box := a.store.Outbox()
	defer box.Close()
	for _, p := range taken {
		if p.canFollow(box.EdgesFrom(p.id)) {
			p.need = false
			p.startFollow()
		} else {
			behind = append(behind, p)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	began := time.Now()
	a.log.Info("sync begun: the node stream is compared with the rows", "partitions", len(behind))
	if err := compare(ctx, a.stream, a.store, behind, a.partitions, a.seal.keys.Current().KeyID()); err != nil {
		return err
	}
	c, differences := behind[0].sync.of, 0
	for _, p := range behind {
		differences += len(p.sync.diffs)
	}
	c.after = func(told int) {
		if told < len(behind) {
			a.log.Info("sync broken off", "partitions", len(behind)-told, "seq", c.rows.Seq)
			return
		}
		a.log.Info("sync ended: the differences are announced", "partitions", told, "seq", c.rows.Seq,
			"differences", differences, "seconds", time.Since(began).Seconds())
	}
	return nil
}

// lastFences reads the fences of all partitions. The day marks are asked for
// with them because a stream has one from its creation on, so that the answer
// is not empty; a fence that an empty one missed shows as a refusal.
func lastFences(ctx context.Context, stream Stream, partitions int) ([]placed, error) {
	msgs, _, err := stream.Last(ctx, 0, allFences, allDays)
	if err != nil && !errors.Is(err, streams.ErrNotFound) {
		return nil, fmt.Errorf("read fences: %w", err)
	}
	fences := make([]placed, partitions)
	for _, m := range msgs {
		id, ok := fencePartition(m.Subject, partitions)
		if !ok {
			continue
		}
		f, err := ParseFence(m.Body)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", id, err)
		}
		fences[id] = placed{f, m.Seq}
	}
	return fences, nil
}

func fencePartition(subject string, partitions int) (int, bool) {
	return numbered(subject, fencePrefix, partitions)
}

// numbered reads the partition at the end of a subject.
func numbered(subject, prefix string, partitions int) (int, bool) {
	text, ok := strings.CutPrefix(subject, prefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.Atoi(text)
	return id, err == nil && id >= 0 && id < partitions
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

package relay

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// publisher publishes messages on NATS for the partitions of this process's share.
// Content and ids are derived from the log: two publishers of one partition publish
// the same messages under the same ids, so no lock has to keep them apart. Where it
// does not know what was published, or fell behind, it goes on from the read model.
//
// One goroutine runs it. What other goroutines use is under mu.
type publisher struct {
	store      Store
	opt        PublishOptions
	partitions int
	envelopes  *envelopes
	inbox      *inbox
	r          *Relay

	kick        chan struct{} // changed tables are waiting
	noListeners atomic.Bool   // nobody was subscribed in the last round
	fresh       freshNodes    // what was passed over is not sent to them yet
	at          uint64        // everything up to here was handed over
	time        time.Time     // log timestamp of it
	past        []position    // where it was in the last seconds, oldest first; never empty
	seals       []*sealer     // of the shards
	ahead       int           // messages that a shard may publish before a stream has stored them

	mu       sync.Mutex
	parts    map[int]*part
	tables   changedTables
	compared uint64 // tables were compared up to here, and the changes are published
}

// part is a partition that is published here.
type part struct {
	id        int
	published uint64 // everything up to here was published
	since     uint64 // where this process took it over
	stale     bool   // what comes after published is only in the read model
	// prev is the last id that was published for a node. For other nodes the read
	// model knows it.
	prev map[policy.NodeID]*policy.EventID
	most int // entries of prev from which on removed nodes are looked for
}

// position is the sequence that the publisher had reached at a time.
type position struct {
	at  time.Time
	seq uint64
}

// interestDelay is the longest time between the answer that another worker gave
// to a node and the moment when this worker knows of the node's subscription.
const interestDelay = 5 * time.Second

func newPublisher(r *Relay) *publisher {
	o := r.opt.Publish
	if o.Wire == nil || o.Share == nil {
		return nil
	}
	p := &publisher{
		store: r.store, opt: o, partitions: r.opt.Partitions, r: r,
		envelopes: r.envelopes, ahead: cmp.Or(o.Ahead, streamAhead),
		parts: map[int]*part{}, kick: make(chan struct{}, 1),
	}
	p.noListeners.Store(true) // until the first round
	p.inbox = newInbox(r.opt.HubBytes, p.wanted, func(int) {})
	for range runtime.GOMAXPROCS(0) {
		p.seals = append(p.seals, p.envelopes.sealer())
	}
	return p
}

// wanted reports whether the fold is to make edges for it. A node that subscribes
// when it does not gets what it missed from the read model.
func (p *publisher) wanted() bool { return !p.noListeners.Load() }

// Run publishes what is folded above a sequence, whose event has the log timestamp at,
// and whatever below it is not known to be published, until ctx ends. served is closed
// when this worker receives requests for replays. Listeners overhear them only from then
// on: a server that knows of a subscription tells nobody that there is no responder, so
// whoever asked before would wait for an answer that never comes.
func (p *publisher) Run(ctx context.Context, seq uint64, at time.Time, served <-chan struct{}) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-served:
			return p.opt.Listeners.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	if p.r.opt.Tables != nil {
		g.Go(func() error { return p.followTables(ctx) })
	}
	g.Go(func() error { return p.publish(ctx, seq, at) })
	return g.Wait()
}

// publish is the main loop of Run.
func (p *publisher) publish(ctx context.Context, seq uint64, at time.Time) error {
	p.at, p.time, p.past = seq, at, []position{{time.Now(), seq}}
	failed := false
	again := backoff.Steady(serverRetry)
	for ctx.Err() == nil {
		changed := p.take()
		lost := p.opt.Wire.Reconnects()
		err := p.round(ctx, lost)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failed:
			p.r.opt.Log.Warn("messages could not be published on NATS; trying again", "error", err)
		case err == nil && failed:
			p.r.opt.Log.Info("messages are published on NATS again", "seq", p.at)
		}
		if failed = err != nil; failed {
			p.markStale()
			_ = again.Pause(ctx)
			continue
		}
		p.wait(ctx, changed)
	}
	return nil
}

// idlePause is the pause between rounds while nobody is subscribed. Only the first
// message to a node that subscribes then may be late by that much.
const idlePause = 5 * time.Millisecond

// wait returns when there is something to do.
func (p *publisher) wait(ctx context.Context, changed <-chan struct{}) {
	if p.noListeners.Load() {
		_ = backoff.Sleep(ctx, idlePause)
	}
	select {
	case <-ctx.Done():
	case <-p.inbox.wake:
	case <-changed:
	case <-p.opt.Listeners.Wake():
	case <-p.kick:
	}
}

// take follows the share: it drops partitions that are no longer in it, and begins
// new ones where the worker that had them before stopped, if that is known, or here.
func (p *publisher) take() (changed <-chan struct{}) {
	ids, changed := p.opt.Share.Mine()
	p.mu.Lock()
	defer p.mu.Unlock()
	var released, taken []int
	for id := range p.parts {
		if _, in := slices.BinarySearch(ids, id); !in {
			delete(p.parts, id)
			released = append(released, id)
		}
	}
	for _, id := range ids {
		if p.parts[id] != nil {
			continue
		}
		x := &part{id: id, published: p.at, prev: map[policy.NodeID]*policy.EventID{}, most: fewNodes}
		if p.opt.Marks != nil {
			if seq, ok := p.opt.Marks(id); ok {
				x.published, x.stale = seq, seq < p.at
			}
		}
		x.since = x.published
		p.parts[id] = x
		taken = append(taken, id)
	}
	slices.Sort(taken)
	slices.Sort(released)
	if len(taken) > 0 {
		p.r.opt.Log.Info("partitions are published here now", "partitions", len(taken), "ids", Ranges(taken))
	}
	if len(released) > 0 {
		p.r.opt.Log.Info("partitions are not published here any more", "partitions", len(released), "ids", Ranges(released))
	}
	return changed
}

// markStale has every partition go on, from the read model, after what is known to be
// published.
func (p *publisher) markStale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.parts {
		x.stale = true
		clear(x.prev)
	}
}

// own returns the partitions that are published here, by id.
func (p *publisher) own() []*part {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := make([]*part, 0, len(p.parts))
	for _, x := range p.parts {
		own = append(own, x)
	}
	slices.SortFunc(own, func(a, b *part) int { return a.id - b.id })
	return own
}

// round publishes all that waits.
func (p *publisher) round(ctx context.Context, lost uint64) error {
	own := p.own()
	changed := p.takeTables()
	// The parcel is taken after them: it has the events that changed the tables.
	parcel := p.inbox.take()
	// Subscriptions are read after the parcel was taken: no node that was subscribed
	// before an event of the parcel is passed over.
	none := p.opt.Listeners.None()
	p.noListeners.Store(none || len(own) == 0)
	p.fresh.add(p.opt.Listeners.Fresh())
	n := &publishing{publisher: p, began: time.Now(), everybody: !none && p.opt.Listeners.Everybody()}
	seq, at := p.at, p.time
	if parcel.seq > seq {
		seq, at = parcel.seq, parcel.time
	}
	var live, stale []*part
	for _, x := range own {
		if x.stale || parcel.gap {
			stale = append(stale, x)
		} else {
			live = append(live, x)
		}
	}
	var err error
	sent := false // the changed tables are
	if none {
		n.skipAll(own, parcel)
	} else {
		fault.Pass(fault.PublishBefore)
		// What was passed over comes before what is live: a node's messages rise.
		err = n.publishFresh(ctx, live)
		if err == nil {
			err = errors.Join(n.live(ctx, live, parcel.batches), n.catchUp(ctx, stale))
		}
	}
	if err == nil {
		p.at, p.time = seq, at
		sent, err = n.publishTables(ctx, own, changed, seq)
	}
	if err == nil && n.messages.Load() > 0 {
		err = p.opt.Wire.Flush(ctx, lost)
		fault.Pass(fault.PublishAfter)
	}
	if err != nil {
		p.putTables(changed)
		return err
	}
	p.fresh = freshNodes{}
	n.report()
	if !sent {
		changed.seq = 0
	}
	p.advance(own, seq, changed.seq)
	for _, x := range own {
		x.forget(p.store.NodesIn)
	}
	return nil
}

// advance notes that all partitions are published up to seq, changes of tables up to
// another sequence.
func (p *publisher) advance(own []*part, seq, tables uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compared = max(p.compared, tables)
	for _, x := range own {
		x.published, x.stale = max(x.published, seq), false
	}
	now := time.Now()
	if now.Sub(p.past[len(p.past)-1].at) > interestDelay/5 {
		p.past = append(p.past, position{now, seq})
	}
	for len(p.past) > 1 && now.Sub(p.past[1].at) > interestDelay {
		p.past = p.past[1:]
	}
}

// published is up to which sequence each own partition is published, changes of tables
// included.
func (p *publisher) published() map[int]uint64 {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := make(map[int]uint64, len(p.parts))
	for id, x := range p.parts {
		marks[id] = x.published
		if p.r.opt.Tables != nil {
			marks[id] = max(x.since, min(x.published, p.compared))
		}
	}
	return marks
}

// Progress is up to where a process publishes, for code that is made before the
// Relay. The zero value is that of a process that publishes nothing; the Relay that
// gets it in Options.Progress fills it.
type Progress struct{ publisher atomic.Pointer[publisher] }

// Published is up to which event each own partition is published on NATS, changes of
// tables included. A worker that takes a partition over goes on from there.
func (p *Progress) Published() map[int]uint64 { return p.publisher.Load().published() }

// whoListens returns a function that reports whether somebody is subscribed for a
// node. It is cheap to call for many nodes.
func (p *publisher) whoListens() func(policy.NodeID) bool {
	nodes, all := p.opt.Listeners.Who()
	return func(id policy.NodeID) bool { return all || nodes[id] }
}

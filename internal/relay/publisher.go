package relay

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// publisher tells who listens on NATS, for the partitions that are this
// process's. What it publishes is derived from the log, and named by it: two
// publishers of one partition say the same under the same ids, so that nothing
// has to keep them apart. Where it does not know what was published, or fell
// behind, it goes on from the read model.
//
// One goroutine runs it; others are told what they ask for under mu.
type publisher struct {
	store      Store
	opt        PublishOptions
	partitions int
	envelopes  *envelopes
	inbox      *inbox
	r          *Relay

	kick  chan struct{} // words are waiting
	deaf  atomic.Bool   // nobody listens, as far as was known a moment ago
	at    uint64        // everything up to here was handed over
	time  time.Time     // log timestamp of it
	past  []position    // where it stood, a few moments back
	seals []*sealing    // of the shards

	mu    sync.Mutex
	parts map[int]*part
	words changedTables
}

// part is a partition that is published here.
type part struct {
	id    int
	told  uint64 // everything up to here was published
	since uint64 // where it was taken over
	stale bool   // what comes after told is in the read model alone
	// prev is the last id of nodes for which something was published; of others
	// the read model knows.
	prev map[policy.NodeID]*policy.EventID
}

// position is where the publisher stood at a moment.
type position struct {
	at  time.Time
	seq uint64
}

// hearsay is how long it takes at most until it is known here that a node
// listens, whose question another worker has answered.
const hearsay = 5 * time.Second

func newPublisher(r *Relay) *publisher {
	o := r.opt.Publish
	if o.Wire == nil || o.Share == nil {
		return nil
	}
	p := &publisher{
		store: r.store, opt: o, partitions: r.opt.Partitions, r: r,
		envelopes: r.envelopes,
		parts:     map[int]*part{}, kick: make(chan struct{}, 1),
	}
	p.deaf.Store(true) // nobody has looked yet
	p.inbox = newInbox(r.opt.HubBytes, p.wanted, func(int) {})
	for range runtime.GOMAXPROCS(0) {
		p.seals = append(p.seals, p.envelopes.room())
	}
	return p
}

// wanted reports whether edges are to be made for it. Who begins to listen now
// is told from the read model.
func (p *publisher) wanted() bool { return !p.deaf.Load() }

// Run publishes what is folded above a sequence, and what is not known to be
// published up to there, until ctx ends.
func (p *publisher) Run(ctx context.Context, seq uint64) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.opt.Listeners.Run(ctx) })
	if p.r.opt.Tables != nil {
		g.Go(func() error { return p.followTables(ctx) })
	}
	g.Go(func() error { return p.publish(ctx, seq) })
	return g.Wait()
}

// publish is Run but for those beside it.
func (p *publisher) publish(ctx context.Context, seq uint64) error {
	p.at = seq
	failed := false
	for ctx.Err() == nil {
		changed := p.take()
		lost := p.opt.Wire.Reconnects()
		err := p.round(ctx, lost)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failed:
			p.r.opt.Log.Warn("nodes could not be told on NATS; trying again", "error", err)
		case err == nil && failed:
			p.r.opt.Log.Info("nodes are told on NATS again", "seq", p.at)
		}
		if failed = err != nil; failed {
			p.markStale()
			sleep(ctx, backoffMost/8)
			continue
		}
		p.wait(ctx, changed)
	}
	return nil
}

// unheard is how long rounds are apart while nobody listens. Who comes then is
// told up to that much later of the first message alone.
const unheard = 5 * time.Millisecond

// wait returns when there is something to do.
func (p *publisher) wait(ctx context.Context, changed <-chan struct{}) {
	if p.deaf.Load() {
		sleep(ctx, unheard)
	}
	select {
	case <-ctx.Done():
	case <-p.inbox.wake:
	case <-changed:
	case <-p.opt.Listeners.Wake():
	case <-p.kick:
	}
}

// take goes by the share: what is new begins where whoever had it before was,
// or here.
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
		x := &part{id: id, told: p.at, prev: map[policy.NodeID]*policy.EventID{}}
		if p.opt.Marks != nil {
			if seq, ok := p.opt.Marks(id); ok {
				x.told, x.stale = seq, seq < p.at
			}
		}
		x.since = x.told
		p.parts[id] = x
		taken = append(taken, id)
	}
	slices.Sort(taken)
	slices.Sort(released)
	if len(taken) > 0 {
		p.r.opt.Log.Info("partitions are published here now", "partitions", len(taken), "ids", Ranges(taken))
	}
	if len(released) > 0 {
		p.r.opt.Log.Info("partitions are another worker's to publish", "partitions", len(released), "ids", Ranges(released))
	}
	return changed
}

// markStale has every partition go on from what it knows to be published.
func (p *publisher) markStale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.parts {
		x.stale = true
		clear(x.prev)
	}
}

// own are the partitions published here.
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
	parcel := p.inbox.take()
	words := p.takeWords()
	// Who listens is asked after what there is: nobody who was there before it is
	// passed over.
	none := p.opt.Listeners.None()
	p.deaf.Store(none || len(own) == 0)
	fresh := p.opt.Listeners.Fresh()
	n := &publishing{publisher: p, began: time.Now(), everybody: !none && p.opt.Listeners.Everybody()}
	seq := max(p.at, parcel.seq)
	var live, stale []*part
	for _, x := range own {
		if x.stale || parcel.gap {
			stale = append(stale, x)
		} else {
			live = append(live, x)
		}
	}
	var err error
	if none {
		n.skipAll(own, parcel)
	} else {
		fault.Pass(fault.PublishBefore)
		err = errors.Join(
			n.live(ctx, live, parcel.batches),
			n.catchUp(ctx, stale, p.whoListens(), func(x *part) uint64 { return x.told }),
			n.greet(ctx, live, fresh))
	}
	if err == nil {
		p.at = seq
		if k := len(parcel.batches); k > 0 && parcel.batches[k-1].Seq == seq {
			p.time = parcel.batches[k-1].Time
		}
		err = n.tables(ctx, own, words, seq)
	}
	if err == nil && n.told.Load() > 0 {
		err = p.opt.Wire.Flush(ctx, lost)
		fault.Pass(fault.PublishAfter)
	}
	if err != nil {
		p.putWords(words)
		return err
	}
	n.report()
	p.stand(own, seq)
	return nil
}

// stand notes where all partitions are now.
func (p *publisher) stand(own []*part, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range own {
		x.told, x.stale = max(x.told, seq), false
	}
	now := time.Now()
	if k := len(p.past); k == 0 || now.Sub(p.past[k-1].at) > hearsay/5 {
		p.past = append(p.past, position{now, seq})
	}
	for len(p.past) > 1 && now.Sub(p.past[1].at) > hearsay {
		p.past = p.past[1:]
	}
}

// before is where the publisher stood when nodes that are heard of now may have
// been answered.
func (p *publisher) before() uint64 {
	if len(p.past) == 0 {
		return p.at
	}
	return p.past[0].seq
}

// published is up to where own partitions are published and tables were looked
// at.
func (p *publisher) published() map[int]uint64 {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := make(map[int]uint64, len(p.parts))
	for id, x := range p.parts {
		marks[id] = x.told
		if p.r.opt.Tables != nil {
			marks[id] = max(x.since, min(x.told, p.r.opt.Tables.Seq()))
		}
	}
	return marks
}

// whoListens reports whether somebody listens for a node, for many nodes at
// once.
func (p *publisher) whoListens() func(policy.NodeID) bool {
	nodes, all := p.opt.Listeners.Who()
	return func(id policy.NodeID) bool { return all || nodes[id] }
}

// publishing is one time that everything that waits is published.
type publishing struct {
	*publisher
	began         time.Time
	everybody     bool // listens
	told, skipped atomic.Int64
	traced        Traced
}

// skipAll passes over what nobody listens to.
func (n *publishing) skipAll(own []*part, p parcel) {
	for _, b := range p.batches {
		for i := range b.Edges {
			n.skipped.Add(int64(b.Edges[i].Have.Len() + b.Edges[i].Lost.Len()))
		}
	}
	for _, x := range own {
		clear(x.prev)
	}
}

func (n *publishing) report() {
	told, skipped := int(n.told.Load()), int(n.skipped.Load())
	if told+skipped > 0 {
		n.r.opt.Metrics.Published(told, skipped)
	}
	if n.r.opt.Traced != nil && len(n.traced.Traces) > 0 {
		n.traced.Announcements, n.traced.Began = told, n.began
		n.r.opt.Traced(n.traced)
	}
}

// live publishes edges, on every core: the partitions are dealt out, so that
// what one node is told keeps its order.
func (n *publishing) live(ctx context.Context, own []*part, batches []projector.Batch) error {
	if len(own) == 0 || len(batches) == 0 {
		return nil
	}
	themes, size := n.themes(batches)
	shards := min(len(n.seals), len(own), 1+size/64)
	var g errgroup.Group
	for i := range shards {
		s := n.shard(ctx, i)
		for k := i; k < len(own); k += shards {
			s.own(own[k])
		}
		g.Go(func() error {
			for j := range themes {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := s.edge(&themes[j]); err != nil {
					return err
				}
			}
			return s.flush()
		})
	}
	return g.Wait()
}

// edgeThemes is an edge, and what is said to those who have it and to those who lost
// it.
type edgeThemes struct {
	*projector.Edge
	have, lost *theme
}

// themes are those of all edges, and how many messages they make at most. One
// that cannot be told is left out, and named in the log.
func (n *publishing) themes(batches []projector.Batch) (list []edgeThemes, size int) {
	for b := range batches {
		for i := range batches[b].Edges {
			e := &batches[b].Edges[i]
			t := edgeThemes{Edge: e}
			size += e.Have.Len() + e.Lost.Len()
			if e.Have.Len() > 0 {
				t.have = n.theme(e.Item, false, e.Trace)
			}
			if e.Lost.Len() > 0 {
				t.lost = n.theme(e.Item, true, e.Trace)
			}
			n.traced.note(e.Trace)
			list = append(list, t)
		}
	}
	return list, size
}

func (n *publishing) theme(i projector.Item, gone bool, trace streams.Trace) *theme {
	t, err := n.envelopes.item(i, gone, trace)
	if err != nil {
		n.r.opt.Log.Error("an item of the read model cannot be told", "id", i.ID, "error", err)
		return nil
	}
	return t
}

// catchUp tells the nodes of partitions that somebody listens for what they
// missed after a sequence, as the read model has it.
func (n *publishing) catchUp(ctx context.Context, own []*part, listens func(policy.NodeID) bool, after func(*part) uint64) error {
	if len(own) == 0 {
		return nil
	}
	var g errgroup.Group
	shards := min(len(n.seals), len(own))
	for i := range shards {
		s := n.shard(ctx, i)
		g.Go(func() error {
			for k := i; k < len(own); k += shards {
				x := own[k]
				for _, id := range n.store.NodesIn(x.id) {
					if !listens(id) {
						delete(x.prev, id)
						continue
					}
					if err := s.missed(ctx, x, id, after(x)); err != nil {
						return err
					}
				}
			}
			return s.flush()
		})
	}
	return g.Wait()
}

// greet tells nodes that were just found to listen what was passed over before
// that was known.
func (n *publishing) greet(ctx context.Context, own []*part, f streams.Fresh) error {
	if len(f.Nodes) == 0 && !f.All {
		return nil
	}
	from := func(*part) uint64 { return n.before() }
	if f.All {
		for _, x := range own {
			clear(x.prev) // what was told before is said again
		}
		return n.catchUp(ctx, own, n.whoListens(), from)
	}
	s := n.shard(ctx, 0)
	for _, x := range own {
		s.own(x)
	}
	for _, id := range f.Nodes {
		if x := s.of[id.Partition(n.partitions)]; x != nil {
			delete(x.prev, id)
			if err := s.missed(ctx, x, id, from(x)); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

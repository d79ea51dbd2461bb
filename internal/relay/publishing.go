package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// publishing is one round of the publisher.
type publishing struct {
	*publisher
	began             time.Time
	everybody         bool // somebody may be subscribed for every node
	messages, skipped atomic.Int64
	traced            Traced
}

// skipAll passes over a parcel when nobody is subscribed.
func (n *publishing) skipAll(own []*part, p parcel) {
	for _, b := range p.batches {
		for i := range b.Edges {
			n.skip(own, &b.Edges[i].Have)
			n.skip(own, &b.Edges[i].Lost)
		}
	}
	for _, x := range own {
		clear(x.prev)
	}
}

// skip counts those of some nodes whose messages would be published here.
func (n *publishing) skip(own []*part, nodes *projector.Nodes) {
	if len(own) == n.partitions {
		n.skipped.Add(int64(nodes.Len()))
		return
	}
	for _, x := range own {
		nodes.Each(x.id, func(projector.NodeRef, policy.NodeID) bool {
			n.skipped.Add(1)
			return true
		})
	}
}

func (n *publishing) report() {
	messages, skipped := int(n.messages.Load()), int(n.skipped.Load())
	if messages+skipped > 0 {
		n.r.opt.Metrics.Published(messages, skipped)
	}
	if n.r.opt.Traced != nil && len(n.traced.Traces) > 0 {
		n.traced.Announcements, n.traced.Began = messages, n.began
		n.r.opt.Traced(n.traced)
	}
}

// live publishes edges, on every core. Each goroutine has partitions of its own, so
// that the messages of one node keep their order.
func (n *publishing) live(ctx context.Context, own []*part, batches []projector.Batch) error {
	if len(own) == 0 || len(batches) == 0 {
		return nil
	}
	edges, size := n.edges(batches)
	shards := min(len(n.seals), len(own), 1+size*len(own)/n.partitions/64)
	var g errgroup.Group
	for i := range shards {
		s := n.shard(ctx, i)
		for k := i; k < len(own); k += shards {
			s.own(own[k])
		}
		g.Go(func() error {
			for j := range edges {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := s.edge(&edges[j]); err != nil {
					return err
				}
			}
			return s.flush()
		})
	}
	err := g.Wait()
	for i := range edges {
		if edges[i].have.made || edges[i].lost.made {
			n.traced.note(edges[i].Trace)
		}
	}
	return err
}

// edgeContents is an edge, with the contents for nodes that have the item and for
// nodes that have lost it.
type edgeContents struct {
	*projector.Edge
	have, lost edgeContent
}

// edgeContent is made for the first node of this process's share: most edges in a
// plane of many workers are about nodes that another one publishes for.
type edgeContent struct {
	once sync.Once
	made bool
	is   *content // nil: it cannot be made, and the process log names it
}

// content is e's content for nodes that have the item, or that have lost it. Several
// shards may call it at once.
func (e *edgeContents) content(n *publishing, gone bool) *content {
	c := &e.have
	if gone {
		c = &e.lost
	}
	c.once.Do(func() {
		c.made = true
		item := e.Item
		if gone {
			item = e.Gone()
		}
		c.is = n.content(item, gone, e.Trace)
	})
	return c.is
}

// edges are those of all batches. size is how many messages they make at most, for
// all partitions.
func (n *publishing) edges(batches []projector.Batch) (list []edgeContents, size int) {
	count := 0
	for b := range batches {
		count += len(batches[b].Edges)
	}
	list = make([]edgeContents, count)
	k := 0
	for b := range batches {
		for i := range batches[b].Edges {
			e := &batches[b].Edges[i]
			list[k].Edge = e
			k++
			size += e.Have.Len() + e.Lost.Len()
		}
	}
	return list, size
}

func (n *publishing) content(i projector.Item, gone bool, trace streams.Trace) *content {
	t, err := n.envelopes.itemContent(i, gone, trace)
	if err != nil {
		n.r.opt.Log.Error("an item of the read model cannot be published", "id", i.ID, "error", err)
		return nil
	}
	return t
}

// catchUp publishes, from the read model, what the subscribed nodes of partitions
// missed: what is not published yet, and what was passed over before they were known.
func (n *publishing) catchUp(ctx context.Context, own []*part) error {
	if len(own) == 0 {
		return nil
	}
	listens := n.whoListens()
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
					if err := s.catchUp(ctx, x, id); err != nil {
						return err
					}
				}
			}
			return s.flush()
		})
	}
	return g.Wait()
}

// publishFresh publishes, to nodes whose subscriptions are new, what was passed over
// before these were known.
func (n *publishing) publishFresh(ctx context.Context, own []*part) error {
	if n.fresh.all {
		return n.catchUp(ctx, own)
	}
	if len(n.fresh.nodes) == 0 {
		return nil
	}
	s := n.shard(ctx, 0)
	for _, x := range own {
		s.own(x)
	}
	for id := range n.fresh.nodes {
		if x := s.of[id.Partition(n.partitions)]; x != nil {
			if err := s.catchUp(ctx, x, id); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

// freshNodes are nodes whose subscriptions are new. They are kept until a round has
// succeeded.
type freshNodes struct {
	nodes map[policy.NodeID]bool
	all   bool // any node's
}

func (f *freshNodes) add(found streams.Fresh) {
	if f.nodes == nil && len(found.Nodes) > 0 {
		f.nodes = map[policy.NodeID]bool{}
	}
	for _, id := range found.Nodes {
		f.nodes[id] = true
	}
	f.all = f.all || found.All
}

func (f *freshNodes) has(id policy.NodeID) bool { return f.all || f.nodes[id] }

// before is the sequence from which nodes have to be served whose subscriptions are
// new: where the publisher was when another worker may have answered them.
func (p *publisher) before() uint64 { return p.past[0].seq }

// fewNodes is how many nodes of a partition are remembered, whether or not they exist.
const fewNodes = 256

// forget drops from prev the nodes that were removed. It looks for them when prev has
// grown to twice what it was afterwards the last time.
func (x *part) forget(nodesIn func(partition int) []policy.NodeID) {
	if len(x.prev) < x.most {
		return
	}
	kept := make(map[policy.NodeID]*policy.EventID, len(x.prev))
	for _, id := range nodesIn(x.id) {
		if last := x.prev[id]; last != nil {
			kept[id] = last
		}
	}
	x.prev, x.most = kept, max(fewNodes, 2*len(kept))
}

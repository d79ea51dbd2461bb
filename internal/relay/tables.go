package relay

import (
	"context"
	"maps"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

// TableWatch finds the nodes that are followed here whose table has changed while none
// of their rows has.
type TableWatch interface {
	// Follow begins to watch the table of a node that has a reader here. Changes up to
	// the log sequence at are not reported. tables: the reader enforces tables. A node
	// can be followed several times. Follow and unfollow return at once, and may be
	// called by any goroutine, under any lock.
	Follow(node policy.NodeID, tables bool, at uint64) (unfollow func())
	// Due receives when Look is to be called for a node that is newly followed.
	Due() <-chan struct{}
	// Look compares tables with those at the Look before, up to the sequence seq. One
	// goroutine calls it. all are the nodes whose readers are all to be notified, asked
	// those of which only readers that enforce tables are. After an error it can be
	// called again, and nothing is lost. It ends with ctx.
	Look(ctx context.Context) (seq uint64, all, asked []policy.NodeID, err error)
	// Ordered reports whether an ordered policy applies to the node, or did at a
	// sequence or later.
	Ordered(node policy.NodeID, after uint64) (bool, error)
}

// tableRetry is the pause after a Look that failed.
const tableRetry = time.Second

// maxRest bounds pauses whose length is measured by the work before them: a process that
// was suspended meanwhile, alone or with its machine, did not work all that time.
const maxRest = 10 * time.Second

// rest leaves the processor to others for a while.
func rest(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, min(d, maxRest)) }

// watchTables notifies readers here of tables that changed while none of their rows
// did. After each Look it rests for as long as that took.
func (r *Relay) watchTables(ctx context.Context) error {
	w := r.opt.Tables
	failed := false
	again := backoff.Steady(tableRetry)
	for ctx.Err() == nil {
		changed := r.store.Changed()
		began := time.Now()
		seq, all, asked, err := w.Look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if !failed {
				r.opt.Log.Warn("changed tables could not be found; trying again", "error", err)
			}
			failed = true
			_ = again.Pause(ctx)
			continue
		}
		failed = false
		r.hub.notifyTables(seq, all, asked)
		r.publisher.notifyTables(seq, all, asked)
		rest(ctx, time.Since(began))
		select {
		case <-changed:
		case <-w.Due():
		case <-ctx.Done():
		}
	}
	return nil
}

// changedTables are the nodes to notify on NATS of a changed table, once everything
// up to seq is published.
type changedTables struct {
	seq   uint64
	nodes map[policy.NodeID]bool
}

// notifyTables has nodes notified in the next round. It does not wait.
func (p *publisher) notifyTables(seq uint64, all, asked []policy.NodeID) {
	if p == nil {
		return
	}
	w := changedTables{seq: seq, nodes: map[policy.NodeID]bool{}}
	for _, id := range all {
		w.nodes[id] = true
	}
	for _, id := range asked {
		if p.opt.Listeners.Enforces(id) {
			w.nodes[id] = true
		}
	}
	if !p.putTables(w) {
		return // as where a stream begins: a round would find nothing to do
	}
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// putTables keeps what is to be notified in a later round. It is false if that is nothing new.
func (p *publisher) putTables(w changedTables) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(w.nodes) == 0 && w.seq <= p.tables.seq {
		return false
	}
	if p.tables.nodes == nil {
		p.tables.nodes = map[policy.NodeID]bool{}
	}
	p.tables.seq = max(p.tables.seq, w.seq)
	for id := range w.nodes {
		p.tables.nodes[id] = true
	}
	return true
}

func (p *publisher) takeTables() changedTables {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.tables
	p.tables.nodes = nil
	return w
}

// publishTables notifies nodes of changed tables, once everything up to seq is
// published. Changes by later events wait, and so do nodes for which a later event is
// published already, because it was read from the read model: their messages rise. sent
// is false if any waits; the round of the later event is due.
func (n *publishing) publishTables(ctx context.Context, own []*part, w changedTables, seq uint64) (sent bool, err error) {
	if w.seq > seq {
		n.putTables(w)
		return false, nil
	}
	if len(w.nodes) == 0 {
		return true, nil
	}
	s := n.shard(ctx, 0)
	for _, x := range own {
		s.own(x)
	}
	t := n.envelopes.pullContent(artifact.ReasonDatapath, n.store.Base(), seq, n.time)
	wait := changedTables{seq: w.seq, nodes: map[policy.NodeID]bool{}}
	for id := range w.nodes {
		x := s.of[id.Partition(n.partitions)]
		if x == nil {
			continue
		}
		if last := x.prev[id]; last != nil && *last > t.ID {
			wait.nodes[id] = true
			continue
		}
		if err := s.add(x, id, t); err != nil {
			return false, err
		}
	}
	if len(wait.nodes) > 0 {
		n.putTables(wait)
	}
	return len(wait.nodes) == 0, s.flush()
}

// How often the publisher compares the subscriptions with the tables that it follows:
// it rests followRest times as long as that took, and at least followPause.
const (
	followPause = 200 * time.Millisecond
	followRest  = 9
)

// followed is a node whose table is watched for a reader on NATS.
type followed struct {
	tables bool
	end    func()
}

// following is the nodes whose tables are watched: those of this process's partitions
// for which somebody is subscribed. It also holds what that was derived from.
type following struct {
	nodes           map[policy.NodeID]followed
	began           map[int]uint64 // by own partition, up to where it was published the last time
	roster, changes uint64
}

// followTables keeps the tables watched of the nodes in own partitions for which
// somebody is subscribed, until ctx ends.
func (p *publisher) followTables(ctx context.Context) error {
	f := following{nodes: map[policy.NodeID]followed{}}
	defer func() {
		for _, x := range f.nodes {
			x.end()
		}
	}()
	for ctx.Err() == nil {
		start := time.Now()
		p.followOnce(&f)
		rest(ctx, max(followPause, followRest*time.Since(start)))
	}
	return nil
}

// followOnce adjusts what is watched to the present subscriptions. It does nothing
// while neither nodes, subscriptions nor partitions have changed.
func (p *publisher) followOnce(f *following) {
	marks := p.published()
	roster, changes := p.store.Roster(), p.opt.Listeners.Changes()
	if f.began != nil && roster == f.roster && changes == f.changes && maps.EqualFunc(marks, f.began, func(uint64, uint64) bool { return true }) {
		f.began = marks
		return
	}
	listens := p.whoListens()
	seen := make(map[policy.NodeID]bool, len(f.nodes))
	for part, published := range marks {
		at, before := f.began[part]
		if !before {
			at = published
		}
		for _, id := range p.store.NodesIn(part) {
			if listens(id) {
				seen[id] = true
				p.follow(f, id, at)
			}
		}
	}
	f.began, f.roster, f.changes = marks, roster, changes
	for id, x := range f.nodes {
		if !seen[id] {
			x.end()
			delete(f.nodes, id)
		}
	}
}

// follow has the table of a node watched from a sequence on.
func (p *publisher) follow(f *following, id policy.NodeID, at uint64) {
	tables := p.opt.Listeners.Enforces(id)
	x, known := f.nodes[id]
	if known && x.tables == tables {
		return
	}
	if known {
		x.end()
	}
	f.nodes[id] = followed{tables, p.r.opt.Tables.Follow(id, tables, at)}
}

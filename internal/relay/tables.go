package relay

import (
	"context"
	"maps"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// TableWatch says which of the nodes followed here have another table and no row
// that says so.
type TableWatch interface {
	// Follow begins to look at a node for somebody here who listens for it: what its
	// table did up to the log sequence at needs no word. tables: the reader said that
	// it enforces tables. Several may follow a node. It returns at once, and so does
	// what it returns, which ends it; both may be called by any goroutine, under any
	// lock.
	Follow(node policy.NodeID, tables bool, at uint64) (unfollow func())
	// Due has something when Look is to be called because somebody follows.
	Due() <-chan struct{}
	// Look looks at what changed since the Look before. One goroutine calls it.
	// Everything up to seq was looked at; all are nodes whose readers are to be told,
	// asked those of whom only readers that enforce tables are. After an error
	// nothing is lost: it is called again. It ends with ctx.
	Look(ctx context.Context) (seq uint64, all, asked []policy.NodeID, err error)
	// Ordered reports whether a policy of the node is ordered, or was at a sequence
	// or later.
	Ordered(node policy.NodeID, after uint64) (bool, error)
	// Seq is that of the last Look.
	Seq() uint64
}

// tableRetry is the pause after a look that failed.
const tableRetry = time.Second

// restMost is the longest rest of those that last as long as the work before, or a
// multiple of it: a process that was stopped meanwhile, alone or with its
// machine, did not work all that time.
const restMost = 10 * time.Second

// rest gives others the processor for a while.
func rest(ctx context.Context, d time.Duration) { sleep(ctx, min(d, restMost)) }

// watchTables has whoever listens here told of tables that changed without a
// row. It rests as long as it looked.
func (r *Relay) watchTables(ctx context.Context) error {
	w := r.opt.Tables
	failed := false
	for ctx.Err() == nil {
		changed := r.store.Changed()
		began := time.Now()
		seq, all, asked, err := w.Look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if !failed {
				r.opt.Log.Warn("changes of tables could not be told; trying again", "error", err)
			}
			failed = true
			sleep(ctx, tableRetry)
			continue
		}
		failed = false
		r.hub.tellTables(seq, all, asked)
		r.publisher.tellTables(seq, all, asked)
		rest(ctx, time.Since(began))
		select {
		case <-changed:
		case <-w.Due():
		case <-ctx.Done():
		}
	}
	return nil
}

// changedTables are nodes to be told on NATS that their table changed, once what
// was folded up to seq is told.
type changedTables struct {
	seq   uint64
	nodes map[policy.NodeID]bool
}

// tellTables has nodes told. Nobody waits for it.
func (p *publisher) tellTables(seq uint64, all, asked []policy.NodeID) {
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
	p.putWords(w)
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *publisher) putWords(w changedTables) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.words.nodes == nil {
		p.words.nodes = map[policy.NodeID]bool{}
	}
	p.words.seq = max(p.words.seq, w.seq)
	for id := range w.nodes {
		p.words.nodes[id] = true
	}
}

func (p *publisher) takeWords() changedTables {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.words
	p.words.nodes = nil
	return w
}

// tables tells nodes that their table changed, as of a sequence up to which all
// else is told. Words about what is told later wait.
func (n *publishing) tables(ctx context.Context, own []*part, w changedTables, seq uint64) error {
	if len(w.nodes) == 0 {
		return nil
	}
	if w.seq > seq {
		n.putWords(w)
		return nil
	}
	s := n.shard(ctx, 0)
	for _, x := range own {
		s.own(x)
	}
	t := n.envelopes.word(artifact.ReasonDatapath, n.store.Base(), seq, n.time)
	for id := range w.nodes {
		if x := s.of[id.Partition(n.partitions)]; x != nil {
			if err := s.add(x, id, t); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

// How often the publisher looks who listens, to follow their tables: it rests
// followRest for each second that it looked.
const (
	followPause = 200 * time.Millisecond
	followRest  = 9
)

// followed is a node whose table is watched for who listens on NATS.
type followed struct {
	tables bool
	end    func()
}

// following are the nodes that are published here and listened for, whose tables
// are watched, and what that was derived from.
type following struct {
	nodes           map[policy.NodeID]followed
	began           map[int]uint64 // by partition published here, where it stood at the last look
	roster, changes uint64
}

// followTables has the tables of nodes watched that are published here and
// listened for, until ctx ends.
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

// followOnce goes by who listens now. Nothing is done while nothing it goes by
// has changed: a fleet that is quiet costs nothing.
func (p *publisher) followOnce(f *following) {
	marks := p.published()
	roster, changes := p.store.Roster(), p.opt.Listeners.Changes()
	if f.began != nil && roster == f.roster && changes == f.changes && maps.EqualFunc(marks, f.began, func(uint64, uint64) bool { return true }) {
		f.began = marks
		return
	}
	listens := p.whoListens()
	seen := make(map[policy.NodeID]bool, len(f.nodes))
	for part, told := range marks {
		at, before := f.began[part]
		if !before {
			at = told
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

// follow has the table of one node watched from a sequence on.
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

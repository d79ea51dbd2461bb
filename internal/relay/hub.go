package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// hub tells the streams that are connected here what the fold changes. One
// goroutine meets edges with streams and signs; each stream writes in its own.
// Neither the fold nor the hub waits for a stream: what a stream is owed waits
// in its queue until it is ready.
type hub struct {
	relay     *Relay
	inbox     *inbox
	connected atomic.Int64 // streams that joined and did not leave

	mu   sync.Mutex // is held for moments: streams join under the fold's lock
	post post
	over bool // the hub has ended

	// Of the hub's goroutine alone.
	begins  uint64 // what was folded up to here was never handed over
	seq     uint64 // everything up to here was put into the queues
	streams []*stream
	nodes   map[policy.NodeID]*stream // the first of each node; the others follow it
	touched []*stream                 // may have something that they were not handed
	words   []tableWords              // of a sequence that is not reached yet
	fresh   freshness
	round   round
}

// post is what others have for the hub.
type post struct {
	joined []joined
	loaded []past
	ready  []*stream // wrote what they were handed, and are owed more
	left   []*stream
	words  []tableWords
	heads  []arrivals
}

// joined is a stream that is to be told of every batch above a sequence.
type joined struct {
	*stream
	seq uint64
	ref projector.NodeRef
}

// past is what a stream that joined missed before it did.
type past struct {
	to   *stream
	news []*news
}

// tableWords name the nodes whose tables events up to a sequence changed.
type tableWords struct {
	seq        uint64
	all, asked []policy.NodeID // asked: for readers that enforce tables alone
}

func newHub(r *Relay) *hub {
	h := &hub{relay: r, nodes: map[policy.NodeID]*stream{}}
	h.round.clock = func() time.Time { return r.clock() }
	h.inbox = newInbox(r.opt.HubBytes, func() bool { return h.connected.Load() > 0 }, r.opt.Metrics.HubDropped)
	h.fresh.wake = make(chan struct{}, 1)
	return h
}

// Run tells what is folded above seq until ctx ends. The streams end with it;
// their clients come back.
func (h *hub) Run(ctx context.Context, seq uint64) error {
	defer h.end()
	h.begins, h.seq = seq, seq
	keys, changed := h.relay.keys.Now()
	h.round.use(keys)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			keys, changed = h.relay.keys.Now()
			h.round.use(keys)
			for _, s := range h.streams {
				h.touch(s) // each is told of a new key at once
			}
		case <-h.inbox.wake:
		}
		h.pass()
	}
}

// ready says why streams cannot be served now.
func (h *hub) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return &NotReadyError{"this worker is stopping"}
	}
	return nil
}

// pass puts into the queues whatever has come, and hands it to the streams that
// are ready.
func (h *hub) pass() {
	// Words first, streams last: what words are about is in the parcel then, and
	// whoever joined below what is in it is known.
	h.mu.Lock()
	h.words, h.post.words = append(h.words, h.post.words...), nil
	h.mu.Unlock()
	p := h.inbox.take()
	h.mu.Lock()
	came := h.post
	h.post = post{}
	h.post.words, came.words = came.words, nil
	h.mu.Unlock()

	began := time.Now()
	for _, j := range came.joined {
		h.add(j)
	}
	h.release(came.heads)
	if p.gap {
		h.skip(p.gapTo)
	}
	for i := range p.batches {
		h.meet(&p.batches[i])
	}
	h.seq = max(h.seq, p.seq)
	for _, l := range came.loaded {
		l.to.queue.precede(l.news)
		l.to.loaded = true
		h.touch(l.to)
	}
	h.tellWords()
	h.release(nil)
	for _, s := range came.ready {
		h.touch(s)
	}
	for _, s := range came.left {
		h.remove(s)
	}
	h.handOut(began)
}

// add has a stream told what is above where it joined, once its past is there.
func (h *hub) add(j joined) {
	s := j.stream
	s.floor, s.ref, s.away, s.sent, s.loaded = j.seq, j.ref, false, false, false
	s.dropQueues()
	if j.seq < h.begins {
		h.sendAway(s)
	}
	if s.place >= 0 {
		return // it joined anew
	}
	s.place = len(h.streams)
	h.streams = append(h.streams, s)
	s.next = h.nodes[s.node]
	h.nodes[s.node] = s
}

func (h *hub) remove(s *stream) {
	if s.place < 0 {
		return // it left before it was seen
	}
	last := h.streams[len(h.streams)-1]
	h.streams[s.place], last.place = last, s.place
	h.streams[len(h.streams)-1] = nil
	h.streams = h.streams[:len(h.streams)-1]
	s.place = -1
	first := h.nodes[s.node]
	switch {
	case first != s:
		for ; first.next != s; first = first.next {
		}
		first.next = s.next
	case s.next == nil:
		delete(h.nodes, s.node)
	default:
		h.nodes[s.node] = s.next
	}
	s.next = nil
	s.dropQueues()
}

// skip has the streams that needed what was dropped up to seq go on from the
// read model.
func (h *hub) skip(seq uint64) {
	for _, s := range h.streams {
		if s.floor < seq {
			s.dropQueues()
			h.sendAway(s)
		}
	}
}

// sendAway has a stream join anew once it wrote what is in its queue.
func (h *hub) sendAway(s *stream) {
	s.away = true
	h.touch(s)
}

// meet puts the news of a batch into the queues of whom they concern.
func (h *hub) meet(b *projector.Batch) {
	for i := range b.Edges {
		e := &b.Edges[i]
		if fault.Sometimes(fault.Drop) {
			continue
		}
		h.tell(b.Seq, e, e.Have, false)
		if !fault.Sometimes(fault.LostTombstone) {
			h.tell(b.Seq, e, e.Lost, true)
		}
	}
}

// tell puts what an edge is to some nodes into their queues. It goes through the
// nodes or through the streams, whichever are fewer.
func (h *hub) tell(seq uint64, e *projector.Edge, nodes projector.Nodes, gone bool) {
	var n *news
	push := func(s *stream) {
		if seq <= s.floor || s.away {
			return
		}
		if n == nil {
			n = newsOf(&e.Item, gone)
			n.cause = e.Time
			h.round.traced.note(e.Trace)
		}
		h.put(s, n)
	}
	if fault.Sometimes(fault.CrossNode) {
		for _, s := range h.streams {
			push(s)
		}
		return
	}
	if nodes.Len() <= len(h.streams) {
		nodes.Each(-1, func(_ projector.NodeRef, id policy.NodeID) bool {
			for s := h.nodes[id]; s != nil; s = s.next {
				push(s)
			}
			return true
		})
		return
	}
	for _, s := range h.streams {
		if nodes.Has(s.ref) {
			push(s)
		}
	}
}

// put puts news into what a stream is owed, or will be once it is not held.
func (h *hub) put(s *stream, n *news) {
	if s.held {
		s.live.put(n)
		return
	}
	s.queue.put(n)
	h.touch(s)
}

func (h *hub) touch(s *stream) {
	if !s.touched {
		s.touched = true
		h.touched = append(h.touched, s)
	}
}

// tellWords puts the words about tables that are due into the queues. A word
// goes under the end of the last event that was told.
func (h *hub) tellWords() {
	later := h.words[:0]
	for _, w := range h.words {
		if w.seq > h.seq {
			later = append(later, w) // rows of events up to there are yet to come
			continue
		}
		h.sayPull(w.all, false)
		h.sayPull(w.asked, true)
	}
	clear(h.words[len(later):])
	h.words = later
}

func (h *hub) sayPull(nodes []policy.NodeID, enforcing bool) {
	for _, id := range nodes {
		for s := h.nodes[id]; s != nil; s = s.next {
			if enforcing && !s.tables || s.away {
				continue
			}
			h.put(s, wordOf(artifact.ReasonDatapath, policy.EndOf(h.relay.store.Base(), max(h.seq, s.floor))))
		}
	}
}

// handOut gives what waits to the streams that are ready for it.
func (h *hub) handOut(began time.Time) {
	for i, s := range h.touched {
		h.touched[i], s.touched = nil, false
		if s.place >= 0 && s.ready() {
			h.round.give(s)
		}
	}
	h.touched = h.touched[:0]
	h.round.end(began, h.relay.opt.Traced)
}

// tellTables has nodes told that their tables changed by events up to seq: all
// whoever reads, asked where the reader said that it enforces tables.
func (h *hub) tellTables(seq uint64, all, asked []policy.NodeID) {
	if len(all)+len(asked) > 0 {
		h.leave(func(p *post) { p.words = append(p.words, tableWords{seq, all, asked}) })
	}
}

// join has s told of every batch above seq. It is called under the fold's lock.
func (h *hub) join(s *stream, seq uint64, ref projector.NodeRef) {
	if fault.Always(fault.StaleJoin) {
		seq += 3
	}
	if !s.counted {
		s.counted = true
		h.connected.Add(1)
	}
	h.leave(func(p *post) { p.joined = append(p.joined, joined{s, seq, ref}) })
	if s.held {
		h.fresh.ask(s)
	}
}

// load gives a stream that joined its past: what it hears before anything live.
func (h *hub) load(s *stream, news []*news) {
	h.leave(func(p *post) { p.loaded = append(p.loaded, past{s, news}) })
}

// isReady has a stream handed what waits for it.
func (h *hub) isReady(s *stream) { h.leave(func(p *post) { p.ready = append(p.ready, s) }) }

// part ends what the hub has of a stream.
func (h *hub) part(s *stream) {
	if s.counted {
		h.connected.Add(-1)
		h.leave(func(p *post) { p.left = append(p.left, s) })
	}
}

// leave leaves something for the hub and wakes it.
func (h *hub) leave(add func(*post)) {
	h.mu.Lock()
	add(&h.post)
	if h.over {
		for _, j := range h.post.joined {
			j.end()
		}
		h.post = post{}
	}
	h.mu.Unlock()
	h.inbox.signal()
}

// end ends every stream.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for _, j := range h.post.joined {
		j.end()
	}
	for _, s := range h.streams {
		s.end()
	}
}

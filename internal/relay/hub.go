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

// hub sends what the fold changes to the streams that are connected to this
// process. One goroutine puts messages into the queues of streams and signs; each
// stream writes in a goroutine of its own. Neither the fold nor the hub waits for a
// stream: messages wait in the stream's queue until it is ready.
type hub struct {
	relay     *Relay
	inbox     *inbox
	connected atomic.Int64 // streams that have joined and not left

	mu   sync.Mutex // held briefly: streams join under the fold's lock
	post post
	over bool // the hub has ended

	// Used by the hub's goroutine only.
	begins  uint64 // what was folded up to here is not handed to the hub
	seq     uint64 // everything up to here was put into the queues
	streams []*stream
	nodes   map[policy.NodeID]*stream // the first of each node; stream.next is the next one
	flagged []*stream                 // may have something to write that they were not given yet
	pulls   []tablePulls              // of a sequence that is not reached yet
	fresh   freshness
	round   round
}

// post is what other goroutines have left for the hub.
type post struct {
	joined []joined
	loaded []past
	ready  []*stream // have written what they were given, and have more waiting
	left   []*stream
	pulls  []tablePulls
	heads  []arrivals
}

// joined is a stream that is to get every batch above a sequence.
type joined struct {
	*stream
	seq uint64
	ref projector.NodeRef
}

// past is what a stream missed before it joined.
type past struct {
	to       *stream
	messages []*message
}

// tablePulls names the nodes whose tables were changed by events up to a sequence.
type tablePulls struct {
	seq        uint64
	all, asked []policy.NodeID // asked: only readers that enforce tables are notified
}

func newHub(r *Relay) *hub {
	h := &hub{relay: r, nodes: map[policy.NodeID]*stream{}}
	h.round.clock = func() time.Time { return r.clock() }
	h.inbox = newInbox(r.opt.HubBytes, func() bool { return h.connected.Load() > 0 }, r.opt.Metrics.HubDropped)
	h.fresh.wake = make(chan struct{}, 1)
	return h
}

// Run sends what is folded above seq until ctx ends. The streams end with it, and
// their clients connect again.
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
				h.flag(s) // a new key is announced at once
			}
		case <-h.inbox.wake:
		}
		h.pass()
	}
}

// ready returns why streams cannot be served now; nil if they can.
func (h *hub) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return &NotReadyError{"this worker is stopping"}
	}
	return nil
}

// pass puts whatever has come into the queues, and gives it to the streams that are
// ready.
func (h *hub) pass() {
	// The order matters. Pulls are taken before the parcel: then the parcel has the
	// events that they are about. Streams are taken after it: then every stream that
	// joined below a batch of the parcel is known.
	h.mu.Lock()
	h.pulls, h.post.pulls = append(h.pulls, h.post.pulls...), nil
	h.mu.Unlock()
	p := h.inbox.take()
	h.mu.Lock()
	came := h.post
	h.post = post{}
	h.post.pulls, came.pulls = came.pulls, nil
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
		h.queueBatch(&p.batches[i])
	}
	h.seq = max(h.seq, p.seq)
	for _, l := range came.loaded {
		l.to.queue.precede(l.messages)
		l.to.loaded = true
		h.flag(l.to)
	}
	h.queuePulls()
	h.release(nil)
	for _, s := range came.ready {
		h.flag(s)
	}
	for _, s := range came.left {
		h.remove(s)
	}
	h.handOut(began)
}

// add has a stream get what is above where it joined, once its past is there.
func (h *hub) add(j joined) {
	s := j.stream
	s.floor, s.ref, s.away, s.sent, s.loaded = j.seq, j.ref, false, false, false
	s.dropQueues()
	if j.seq < h.begins {
		h.rejoin(s)
	}
	if s.place >= 0 {
		return // it joined again
	}
	s.place = len(h.streams)
	h.streams = append(h.streams, s)
	s.next = h.nodes[s.node]
	h.nodes[s.node] = s
}

func (h *hub) remove(s *stream) {
	if s.place < 0 {
		return // it left before the hub had added it
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

// skip is called when batches up to seq were dropped. Streams that needed them go
// on from the read model.
func (h *hub) skip(seq uint64) {
	for _, s := range h.streams {
		if s.floor < seq {
			s.dropQueues()
			h.rejoin(s)
		}
	}
}

// rejoin has a stream join again once it has written what is in its queue.
func (h *hub) rejoin(s *stream) {
	s.away = true
	h.flag(s)
}

// queueBatch puts the messages of a batch into the queues of the nodes' streams.
func (h *hub) queueBatch(b *projector.Batch) {
	for i := range b.Edges {
		e := &b.Edges[i]
		if fault.Sometimes(fault.Drop) {
			continue
		}
		h.queueEdge(b.Seq, e, e.Have, false)
		if !fault.Sometimes(fault.LostTombstone) {
			h.queueEdge(b.Seq, e, e.Lost, true)
		}
	}
}

// queueEdge puts the message about an edge into the queues of some nodes. It loops
// over the nodes or over the streams, whichever are fewer.
func (h *hub) queueEdge(seq uint64, e *projector.Edge, nodes projector.Nodes, gone bool) {
	var n *message
	push := func(s *stream) {
		if seq <= s.floor || s.away {
			return
		}
		if n == nil {
			item := &e.Item
			if gone {
				lost := e.Gone()
				item = &lost
			}
			n = messageOf(item, gone)
			n.cause, n.trace = e.Time, e.Trace.String()
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

// put puts a message into a stream's queue, or, while the stream is held, aside.
func (h *hub) put(s *stream, n *message) {
	if s.held {
		s.live.put(n)
		return
	}
	s.queue.put(n)
	h.flag(s)
}

func (h *hub) flag(s *stream) {
	if !s.flagged {
		s.flagged = true
		h.flagged = append(h.flagged, s)
	}
}

// queuePulls puts the messages about tables that are due into the queues. Their id
// is the end of the last event that was queued.
func (h *hub) queuePulls() {
	later := h.pulls[:0]
	for _, w := range h.pulls {
		if w.seq > h.seq {
			later = append(later, w) // rows of events up to there are yet to come
			continue
		}
		h.queuePull(w.seq, w.all, false)
		h.queuePull(w.seq, w.asked, true)
	}
	clear(h.pulls[len(later):])
	h.pulls = later
}

// queuePull leaves out who joined after those events: the past that he was given says of
// his table what is to be said.
func (h *hub) queuePull(seq uint64, nodes []policy.NodeID, enforcing bool) {
	for _, id := range nodes {
		for s := h.nodes[id]; s != nil; s = s.next {
			if enforcing && !s.tables || s.away || seq <= s.floor {
				continue
			}
			h.put(s, pullMessage(artifact.ReasonDatapath, policy.EndOf(h.relay.store.Base(), max(h.seq, s.floor))))
		}
	}
}

// handOut gives what waits to the streams that are ready.
func (h *hub) handOut(began time.Time) {
	for i, s := range h.flagged {
		h.flagged[i], s.flagged = nil, false
		if s.place >= 0 && s.ready() {
			h.round.give(s)
		}
	}
	h.flagged = h.flagged[:0]
	h.round.end(began, h.relay.opt.Traced)
}

// notifyTables notifies nodes that events up to seq changed their tables: every
// reader of all, and of asked those readers that enforce tables.
func (h *hub) notifyTables(seq uint64, all, asked []policy.NodeID) {
	if len(all)+len(asked) > 0 {
		h.leave(func(p *post) { p.pulls = append(p.pulls, tablePulls{seq, all, asked}) })
	}
}

// join has s get every batch above seq. It is called under the fold's lock.
func (h *hub) join(s *stream, seq uint64, ref projector.NodeRef) {
	if fault.Always(fault.StaleJoin) {
		seq += 3
	}
	if !s.counted {
		s.counted = true
		h.connected.Add(1)
	}
	h.leave(func(p *post) { p.joined = append(p.joined, joined{s, seq, ref}) })
}

// load gives a stream that joined its past, which it gets before anything live.
func (h *hub) load(s *stream, missed []*message) {
	h.leave(func(p *post) { p.loaded = append(p.loaded, past{s, missed}) })
}

// isReady says that a stream can be given what waits for it.
func (h *hub) isReady(s *stream) { h.leave(func(p *post) { p.ready = append(p.ready, s) }) }

// disconnect removes a stream from the hub.
func (h *hub) disconnect(s *stream) {
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

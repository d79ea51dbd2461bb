package relay

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// stream is one SSE response. The hub hands it what to write, its own goroutine
// writes. Neither waits for the other: while it writes, what is new waits in its
// queue.
type stream struct {
	node    policy.NodeID
	scope   string
	dialect policy.Dialect
	tables  bool // its reader enforces tables
	wake    chan struct{}
	over    atomic.Bool  // the hub has ended
	state   atomic.Int32 // of hand
	owed    atomic.Bool  // the hub has more, once hand is idle

	// Of the hub, and while it is writing of the stream.
	hand handed

	// Of the hub alone.
	queue   queue
	place   int // among its streams; below 0: it is none of them
	next    *stream
	ref     projector.NodeRef
	floor   uint64 // batches up to here are in its past
	loaded  bool   // its past is in the queue
	away    bool   // it is not told what is live: it is to join anew
	held    bool   // it is not told what is live yet: see freshness
	live    queue  // what is live while it is held
	sent    bool   // and knows it
	touched bool
	key     string // id of the key that it was told of

	// Of its own goroutine alone.
	relay    *Relay
	counted  bool   // the hub knows of it
	unfollow func() // ends the watch over its table; nil: nobody watches
	w        http.ResponseWriter
	rc       *http.ResponseController
	at       policy.EventID // of the last frame, or where the client began
	gone     bool           // there is no such node any more
	until    time.Time      // the write deadline
	wrote    time.Time      // when something was written last
	payload  []byte
}

// States of what a stream is handed.
const (
	idle      = iota // the hub may hand it something
	preparing        // the hub does
	writing          // the stream does what it was handed
)

func (s *stream) dropQueues() {
	s.queue.drop()
	s.live.drop()
}

// ready reports whether the stream may be handed something. If not, it will ask.
func (s *stream) ready() bool {
	if s.state.Load() != idle {
		s.owed.Store(true)
		if s.state.Load() != idle {
			return false
		}
	}
	s.owed.Store(false)
	return true
}

// take begins to hand it something; more: something else waits.
func (s *stream) take(more bool) {
	s.owed.Store(more)
	s.state.Store(preparing)
}

func (s *stream) handOver() {
	s.state.Store(writing)
	s.signal()
}

// mustHear reports whether the client is to be told of a key before anything
// that it signed: once, while a transition lasts.
func (s *stream) mustHear(keys artifact.Keys, now time.Time) bool {
	id := keys.Current.KeyID()
	if s.key == id {
		return false
	}
	s.key = id
	_, ok := keys.Rotation(now)
	return ok
}

func (s *stream) end() {
	s.over.Store(true)
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// notice is the envelope of news before it is signed: at delivery, because
// agents refuse what was signed five minutes ago (plexsphere 3.2).
func (s *stream) notice(n *news, payload []byte, issued time.Time) artifact.Notice {
	return artifact.Notice{ID: n.noticeID(s.node), Type: n.kind, Scope: s.scope, IssuedAt: issued, Payload: payload}
}

// resume joins the hub after an id, and gives it what the client missed.
func (s *stream) resume(ctx context.Context, after policy.EventID) (missed bool, err error) {
	a, err := s.relay.answerNow(ctx, s, after)
	if err != nil {
		return false, err
	}
	return s.load(&a), nil
}

// load gives the hub what the client missed.
func (s *stream) load(a *answer) (missed bool) {
	list := a.news()
	s.relay.hub.load(s, list)
	return len(list) > 0
}

// join is called under the fold's lock.
func (s *stream) join(seq uint64, ref projector.NodeRef) {
	if s.unfollow == nil && s.relay.opt.Tables != nil {
		s.unfollow = s.relay.opt.Tables.Follow(s.node, s.tables, seq)
	}
	s.relay.hub.join(s, seq, ref)
}

// leave ends what others have of the stream.
func (s *stream) leave() {
	s.relay.hub.part(s)
	if s.unfollow != nil {
		s.unfollow()
	}
}

// news is the answer as it is told, oldest first.
func (a *answer) news() []*news {
	list := make([]*news, 0, len(a.items)+2)
	if a.pull && !fault.Always(fault.Silence) {
		list = append(list, wordOf(artifact.ReasonResync, a.pullID))
	}
	for i := range a.items {
		list = append(list, newsOf(&a.items[i].Item, a.items[i].Gone))
	}
	if fault.Always(fault.Reorder) {
		slices.Reverse(list)
	}
	if a.table {
		list = append(list, wordOf(artifact.ReasonDatapath, a.upTo))
	}
	return list
}

// serve writes until either side ends.
func (s *stream) serve(ctx context.Context) error {
	every := s.relay.opt.KeepAlive
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			silent, err := s.tick(ctx, every)
			if err != nil {
				return err
			}
			timer.Reset(silent)
		case <-s.wake:
			if s.state.Load() == writing {
				if err := s.doHanded(ctx); err != nil {
					return err
				}
				if s.gone {
					timer.Reset(min(every, s.relay.look))
				}
			}
			if s.over.Load() {
				return nil
			}
		}
	}
}

// tick keeps a silent stream alive, and returns when to look again.
func (s *stream) tick(ctx context.Context, every time.Duration) (next time.Duration, err error) {
	if s.gone {
		if err := s.again(ctx); err != nil {
			return 0, err
		}
	}
	silent := time.Since(s.wrote)
	if silent >= every {
		if err := errors.Join(s.write([]byte(":keep-alive\n\n")), s.flush()); err != nil {
			return 0, err
		}
		silent = 0
	}
	next = every - silent
	if s.gone {
		next = min(next, s.relay.look)
	}
	return next, nil
}

// doHanded does what the hub handed over, and asks for more if there is.
func (s *stream) doHanded(ctx context.Context) error {
	h := &s.hand
	err := s.writeAll(h)
	clear(h.list)
	h.run = nil
	if again := h.again; err == nil && again {
		err = s.again(ctx)
	}
	s.state.Store(idle)
	if s.owed.CompareAndSwap(true, false) {
		s.relay.hub.isReady(s)
	}
	return err
}

// again joins anew where the client is. What it was told last came from this
// fold, which may not have called it applied yet, so nobody need be asked how far
// the log is. A stream of a node that was removed stays: it may come back, and
// agents that meet a 404 never ask again.
func (s *stream) again(ctx context.Context) error {
	r := s.relay
	if err := r.confirmed(); err != nil {
		return err
	}
	a, err := r.answerAt(ctx, math.MaxUint64, s.node, s.at, s.tables, s.join)
	s.gone = errors.Is(err, projector.ErrUnknownNode)
	switch {
	case s.gone:
		return nil
	case err != nil:
		return err
	}
	s.load(&a)
	return nil
}

// frames are buffers of streams that write; a stream that is silent has none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// framesHeld is how many bytes of frames are gathered for one write.
const framesHeld = 16 << 10

// writeAll writes what was handed over in as few writes as it may.
func (s *stream) writeAll(h *handed) error {
	if !h.tellKey && len(h.list) == 0 {
		return nil
	}
	pooled := frames.Get().(*[]byte)
	b := (*pooled)[:0]
	defer func() {
		if cap(b) <= 4*framesHeld { // a rare giant is not kept
			*pooled = b
			frames.Put(pooled)
		}
	}()
	if h.tellKey {
		b = s.appendKey(b, h)
	}
	for i := range h.list {
		b = s.appendNews(b, h, i)
		if fault.Sometimes(fault.Duplicate) {
			b = s.appendNews(b, h, i)
		}
		if len(b) >= framesHeld {
			if err := s.write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if len(b) > 0 {
		if err := s.write(b); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	now := time.Now()
	s.wrote = now
	for _, n := range h.list {
		if !n.cause.IsZero() {
			s.relay.opt.Metrics.Delivered(now.Sub(n.cause))
		}
	}
	return nil
}

// appendKey appends the frame that names the current key under the one before
// it. Its id is where the client is: nothing of the log stands behind it.
func (s *stream) appendKey(b []byte, h *handed) []byte {
	return appendFrame(b, s.at, artifact.TypeKeyRotated, func(b []byte) []byte {
		b, _ = h.keys.AppendRotation(s.dialect, b, string(s.node), h.issued)
		return b
	})
}

func (s *stream) appendNews(b []byte, h *handed, i int) []byte {
	n := h.list[i]
	s.payload = n.appendPayload(s.payload[:0], s.node)
	s.at = n.id
	return appendFrame(b, n.id, n.kind, func(b []byte) []byte {
		notice := s.notice(n, s.payload, h.issued)
		if h.run == nil {
			return h.keys.Current.AppendNoticeIn(s.dialect, b, notice)
		}
		return h.run.AppendNotice(b, h.first+i, notice)
	})
}

func (s *stream) write(b []byte) error {
	s.deadline()
	_, err := s.w.Write(b)
	return err
}

// deadline ends the stream of a reader that takes nothing for a write timeout,
// or an eighth less: it is not moved at each write.
func (s *stream) deadline() {
	now := time.Now()
	if timeout := s.relay.opt.WriteTimeout; s.until.Sub(now) < timeout-timeout/8 {
		s.until = now.Add(timeout)
		// A writer that knows no deadlines, as in tests, goes without.
		_ = s.rc.SetWriteDeadline(s.until)
	}
}

func (s *stream) flush() error { return s.rc.Flush() }

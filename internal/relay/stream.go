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

// stream is one SSE response. The hub gives it what to write, and its own goroutine
// writes. Neither waits for the other: while the stream writes, new messages wait in
// its queue.
type stream struct {
	node    policy.NodeID
	scope   string
	dialect policy.Dialect
	tables  bool // its reader enforces tables
	wake    chan struct{}
	over    atomic.Bool  // the hub has ended, or the stream has left
	state   atomic.Int32 // of hand
	owed    atomic.Bool  // the hub has more for it, once state is idle

	// Used by the hub, and while state is writing by the stream's goroutine.
	hand handed

	// Used by the hub only.
	queue   queue
	place   int // index in hub.streams; below 0: it is not in there
	next    *stream
	ref     projector.NodeRef
	floor   uint64 // batches up to here are in its past
	loaded  bool   // its past is in the queue
	away    bool   // it gets nothing live: it is to join again
	held    bool   // it gets nothing live yet: see freshness; the hub's once the stream has joined
	live    queue  // live messages while it is held
	sent    bool   // it was given the order to join again (handed.again)
	flagged bool
	key     string // id of the key that was announced to it last

	// Used by its own goroutine only.
	relay    *Relay
	counted  bool   // the hub knows of it
	unfollow func() // ends the watch of its table; nil: it is not watched
	w        http.ResponseWriter
	rc       *http.ResponseController
	at       policy.EventID // of the last frame, or where the client began
	gone     bool           // the node was removed
	until    time.Time      // the write deadline
	wrote    time.Time      // when something was written last
	payload  []byte
}

// States of stream.hand.
const (
	idle      = iota // the hub may fill it
	preparing        // the hub fills it
	writing          // the stream writes it
)

func (s *stream) dropQueues() {
	s.queue.drop()
	s.live.drop()
}

// ready reports whether the stream can be given something. If not, it will call
// hub.isReady.
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

// take begins to fill hand; more: something else waits.
func (s *stream) take(more bool) {
	s.owed.Store(more)
	s.state.Store(preparing)
}

func (s *stream) handOver() {
	s.state.Store(writing)
	s.signal()
}

// mustSendKey reports whether the current key is to be announced to the client
// before anything that it signed: once for each key, during the transition.
func (s *stream) mustSendKey(keys artifact.Keys, now time.Time) bool {
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

// notice is the envelope of a message before it is signed. It is signed at delivery,
// because agents refuse a signature older than five minutes (plexsphere 3.2).
func (s *stream) notice(n *message, payload []byte, issued time.Time) artifact.Notice {
	return artifact.Notice{ID: n.noticeID(s.node), Type: n.kind, Scope: s.scope, IssuedAt: issued, Payload: payload}
}

// resume joins the hub, and gives it what the client missed after an id.
func (s *stream) resume(ctx context.Context, after policy.EventID) (missed bool, err error) {
	a, err := s.relay.answerNow(ctx, s, after)
	if err != nil {
		return false, err
	}
	return s.load(&a), nil
}

// load gives the hub what the client missed.
func (s *stream) load(a *answer) (missed bool) {
	list := a.messages()
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

// joinHeld is join for a stream that is held. The head is asked for once: what it
// was when the client came covers every later join, and from here on only the hub
// reads and writes held.
func (s *stream) joinHeld(seq uint64, ref projector.NodeRef) {
	s.join(seq, ref)
	s.relay.hub.fresh.ask(s)
}

// leave removes the stream from the hub, and ends the watch of its table.
func (s *stream) leave() {
	s.over.Store(true)
	s.relay.hub.disconnect(s)
	if s.unfollow != nil {
		s.unfollow()
	}
}

// messages is the answer as messages, oldest first.
func (a *answer) messages() []*message {
	list := make([]*message, 0, len(a.items)+2)
	if a.pull && !fault.Always(fault.Silence) {
		list = append(list, pullMessage(artifact.ReasonResync, a.pullID))
	}
	for i := range a.items {
		list = append(list, messageOf(&a.items[i].Item, a.items[i].Gone))
	}
	if fault.Always(fault.Reorder) {
		slices.Reverse(list)
	}
	if a.table {
		list = append(list, pullMessage(artifact.ReasonDatapath, a.upTo))
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

// tick writes a comment to a stream without messages, and returns when to call it
// again.
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

// doHanded writes what the hub gave it, and asks for more if more waits.
func (s *stream) doHanded(ctx context.Context) error {
	h := &s.hand
	err := s.writeAll(h)
	if err == nil && h.again {
		err = s.again(ctx)
		if err == nil && s.gone {
			err = s.mustPull(h)
		}
	}
	clear(h.list)
	h.run = nil
	s.state.Store(idle)
	if s.owed.CompareAndSwap(true, false) {
		s.relay.hub.isReady(s)
	}
	return err
}

// again joins again after the last message that the client got. That came from this
// worker's fold, even if Applied does not show it yet, so the log's head need not be
// asked for. The stream of a removed node stays open: the node may be registered
// again, and an agent that gets a 404 does not connect again.
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

// mustPull has the client pull, whose node was removed while it was sent nothing live:
// what took its rows away stands in no answer, and it learns of the removal by the 404.
func (s *stream) mustPull(h *handed) error {
	clear(h.list)
	h.list = append(h.list[:0], pullMessage(artifact.ReasonResync, s.at))
	h.sendKey, h.run = false, nil
	return s.writeAll(h)
}

// frames are buffers for streams that write. A stream without messages holds none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// writeSize is how many bytes of frames are gathered for one write.
const writeSize = 16 << 10

// writeAll writes what the hub gave it, in few writes.
func (s *stream) writeAll(h *handed) error {
	if !h.sendKey && len(h.list) == 0 {
		return nil
	}
	pooled := frames.Get().(*[]byte)
	b := (*pooled)[:0]
	defer func() {
		if cap(s.payload) > writeSize { // nor that of a large message, with each stream that was sent it
			s.payload = nil
		}
		if cap(b) <= 4*writeSize { // do not keep a rare large buffer
			*pooled = b
			frames.Put(pooled)
		}
	}()
	if h.sendKey {
		b = s.appendKey(b, h)
	}
	for i := range h.list {
		b = s.appendMessage(b, h, i)
		if fault.Sometimes(fault.Duplicate) {
			b = s.appendMessage(b, h, i)
		}
		if len(b) >= writeSize {
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

// appendKey appends the frame that announces the current key, signed with the one
// before it. Its id is that of the last frame: it is about no event of the log.
func (s *stream) appendKey(b []byte, h *handed) []byte {
	return appendFrame(b, s.at, artifact.TypeKeyRotated, func(b []byte) []byte {
		b, _ = h.keys.AppendRotation(s.dialect, b, string(s.node), h.issued)
		return b
	})
}

func (s *stream) appendMessage(b []byte, h *handed, i int) []byte {
	n := h.list[i]
	s.payload = n.appendPayload(s.payload[:0], s.node)
	s.at = n.id
	b = appendTrace(b, n.trace)
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

// deadline ends the stream of a client that reads nothing for a write timeout, or up
// to an eighth less: the deadline is not moved at every write.
func (s *stream) deadline() {
	now := time.Now()
	if timeout := s.relay.opt.WriteTimeout; s.until.Sub(now) < timeout-timeout/8 {
		s.until = now.Add(timeout)
		// A writer without deadlines, as in tests, is left without one.
		_ = s.rc.SetWriteDeadline(s.until)
	}
}

func (s *stream) flush() error { return s.rc.Flush() }

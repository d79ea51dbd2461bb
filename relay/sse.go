package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// Types of the events a node receives (plexsphere 3.1).
const (
	eventPolicyUpdated   = "policy_updated"
	eventArtifactUpdated = "artifact_updated"
	eventStateUpdated    = "node_state_updated"
)

// ErrBadLastEventID: the header is not a non-negative decimal integer; answer
// 400 bad_last_event_id.
var ErrBadLastEventID = errors.New("Last-Event-ID must be a non-negative decimal integer")

// leastStream is how long a stream that must end is held open: clients come
// back at once after a 200 that ends (plexsphere 3.3).
const leastStream = time.Second

// ServeEvents answers GET /v1/nodes/{id}/events for a node that exists. An
// error means that nothing was written yet: ErrBadLastEventID (400),
// *NotReadyError or any other (503 with Retry-After). Once the stream is open
// it ends with the request, with the process, when the client does not read
// within a write timeout, or when the node stream is found remade.
func (r *Relay) ServeEvents(w http.ResponseWriter, req *http.Request, node policy.NodeID) error {
	n, given, err := lastEventID(req)
	if err != nil {
		return err
	}
	h := r.hub.Load()
	if h == nil {
		return &NotReadyError{"the node stream is not open yet"}
	}
	sub, p, err := h.open(req.Context(), node, n, given)
	if err != nil {
		return err
	}
	defer h.unsubscribe(sub)
	r.opt.Metrics.Resumed(p.source)
	r.opt.Metrics.Clients(1)
	defer r.opt.Metrics.Clients(-1)

	began := time.Now()
	defer bound(connOf(req))()
	s := &eventStream{
		w: w, rc: http.NewResponseController(w), node: node, ring: r.keys, dialect: r.opt.Dialect(node), at: p.upTo,
		metrics: r.opt.Metrics, timeout: r.opt.WriteTimeout,
	}
	if given {
		s.at = n
	}
	if err := s.serve(req.Context(), sub, p, r.opt.KeepAlive); err != nil {
		r.opt.Log.Debug("an event stream ended", "node", node, "error", err)
	}
	sleep(req.Context(), leastStream-time.Since(began))
	return nil
}

// open subscribes a client: after n, or live from now.
func (h *hub) open(ctx context.Context, node policy.NodeID, n uint64, given bool) (*subscriber, past, error) {
	if !given {
		s, at, err := h.subscribe(node)
		return s, past{upTo: at, source: SourceLive, events: none}, err
	}
	return h.resume(ctx, node, n)
}

// lastEventID reads the header; absent and empty are the same. A number too
// large for any stream is beyond every end.
func lastEventID(req *http.Request) (n uint64, given bool, err error) {
	text := req.Header.Get("Last-Event-ID")
	if text == "" {
		return 0, false, nil
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false, ErrBadLastEventID
		}
	}
	if n, err = strconv.ParseUint(text, 10, 64); err != nil {
		n = math.MaxUint64
	}
	return n, true, nil
}

// eventStream writes one SSE response. Only its own goroutine uses it.
type eventStream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	node    policy.NodeID
	dialect policy.Dialect
	ring    *artifact.Keyring
	keys    artifact.Keys // that the client was told of
	changed <-chan struct{}
	at      uint64 // id of the last frame, or where the client began
	metrics Metrics
	timeout time.Duration
	buf     []byte      // frames not written yet; nil while the stream is silent
	held    []time.Time // causes of live events in buf; zero: none
}

// serve writes the past and then what is live until either side ends.
func (s *eventStream) serve(ctx context.Context, sub *subscriber, p past, keepAlive time.Duration) error {
	if err := s.head(); err != nil {
		return err
	}
	if err := s.past(p); err != nil {
		return err
	}
	return s.live(ctx, sub, keepAlive)
}

// past writes what the client missed.
func (s *eventStream) past(p past) error {
	s.begin()
	defer s.rest()
	s.keys, s.changed = s.ring.Now()
	s.tellKey()
	if p.pull && !fault.Always(fault.Silence) {
		if _, err := s.add(&news{Message: streams.Message{Seq: p.pullID}, why: p.why}); err != nil {
			return err
		}
	}
	for e, err := range p.events {
		if err != nil {
			return err
		}
		if _, err := s.add(e); err != nil {
			return err
		}
		if err := s.sendFull(); err != nil {
			return err
		}
	}
	return s.send()
}

// live writes what the hub pushes.
func (s *eventStream) live(ctx context.Context, sub *subscriber, keepAlive time.Duration) error {
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := s.write([]byte(":keep-alive\n\n")); err != nil {
				return err
			}
			if err := s.flush(); err != nil {
				return err
			}
		case <-s.changed:
			if err := s.changeKeys(); err != nil {
				return err
			}
		case <-sub.wake:
			events, ended := sub.drain()
			if err := s.all(events); err != nil || ended {
				return err
			}
			ticker.Reset(keepAlive)
		}
	}
}

// changeKeys tells the client of a new key before anything is signed with it.
func (s *eventStream) changeKeys() error {
	s.begin()
	defer s.rest()
	before := s.keys.Current.KeyID()
	if s.keys, s.changed = s.ring.Now(); s.keys.Current.KeyID() == before {
		return nil // a transition ended
	}
	s.tellKey()
	return s.send()
}

// tellKey appends, while a transition lasts, the frame that names the current
// key under the one before it. Its id is where the client is: no message of the
// node stream stands behind it.
func (s *eventStream) tellKey() {
	now := time.Now()
	if _, ok := s.keys.Rotation(now); ok {
		s.buf = appendFrame(s.buf, s.at, artifact.TypeKeyRotated, func(b []byte) []byte {
			b, _ = s.keys.AppendRotation(s.dialect, b, string(s.node), now)
			return b
		})
	}
}

// all writes events in as few writes as it may.
func (s *eventStream) all(events []*news) error {
	s.begin()
	defer s.rest()
	for _, e := range events {
		cause, err := s.add(e)
		if err != nil {
			return err
		}
		s.held = append(s.held, cause)
		if err := s.sendFull(); err != nil {
			return err
		}
	}
	return s.send()
}

func (s *eventStream) head() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Plexsphere-API-Version", "v1")
	h.Set("X-Accel-Buffering", "no")
	s.deadline()
	s.w.WriteHeader(http.StatusOK)
	return s.flush()
}

// frames are buffers of streams that write; a stream that is silent has none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// framesHeld is how many bytes of frames are gathered for one write.
const framesHeld = 16 << 10

func (s *eventStream) begin() { s.buf = (*frames.Get().(*[]byte))[:0] }

func (s *eventStream) rest() {
	b := s.buf
	s.buf, s.held = nil, nil
	if cap(b) <= 4*framesHeld { // a rare giant is not kept
		frames.Put(&b)
	}
}

// add appends the frame of one event, signed now: agents refuse what was
// signed five minutes ago (plexsphere 3.2). cause is when the log stored what
// the event tells; zero: the event is ours.
func (s *eventStream) add(e *news) (cause time.Time, err error) {
	n := artifact.Notice{ID: e.Get(streams.HeaderEdictID), Scope: "node:" + string(s.node), IssuedAt: time.Now()}
	t := told{pull: true}
	if e.why == "" {
		if t, err = e.read(); err != nil {
			return cause, fmt.Errorf("message %d of the node stream: %w", e.Seq, err)
		}
	}
	switch {
	case t.pull:
		why := cmp.Or(e.why, whyResync)
		n.ID, n.Type = string(s.node)+"."+why+"."+strconv.FormatUint(e.Seq, 10), eventStateUpdated
		n.Payload = json.RawMessage(`{"node_id":"` + string(s.node) + `","reason":"` + why + `"}`)
	case t.payload == nil:
		return cause, nil // not for this transport
	default:
		n.Type, n.Payload, cause = t.kind, t.payload, t.cause
	}
	s.at = e.Seq
	s.buf = appendFrame(s.buf, e.Seq, n.Type, func(b []byte) []byte { return s.keys.Current.AppendNoticeIn(s.dialect, b, n) })
	if fault.Sometimes(fault.Duplicate) {
		s.buf = appendFrame(s.buf, e.Seq, n.Type, func(b []byte) []byte { return s.keys.Current.AppendNoticeIn(s.dialect, b, n) })
	}
	return cause, nil
}

// sendFull is send when enough frames are gathered.
func (s *eventStream) sendFull() error {
	if len(s.buf) < framesHeld {
		return nil
	}
	return s.send()
}

// send writes the frames gathered and lets them go out.
func (s *eventStream) send() error {
	if len(s.buf) > 0 {
		if err := s.write(s.buf); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	for _, cause := range s.held {
		if !cause.IsZero() {
			s.metrics.Delivered(time.Since(cause))
		}
	}
	s.buf, s.held = s.buf[:0], s.held[:0]
	return nil
}

func (s *eventStream) write(b []byte) error {
	s.deadline()
	_, err := s.w.Write(b)
	return err
}

// deadline ends the stream of a reader that takes nothing for a write timeout.
func (s *eventStream) deadline() {
	// A writer that knows no deadlines, as in tests, goes without.
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.timeout))
}

func (s *eventStream) flush() error { return s.rc.Flush() }

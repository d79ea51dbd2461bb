package relay

import (
	"errors"
	"net/http"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

// ErrBadLastEventID means that the header is not a non-negative decimal integer;
// answer 400 bad_last_event_id.
var ErrBadLastEventID = errors.New("Last-Event-ID must be a non-negative decimal integer")

// minStream is how long a stream is held open at least: after a 200 clients connect
// again without a pause (plexsphere 3.3).
const minStream = time.Second

// ServeEvents answers GET /v1/nodes/{id}/events. An error means that nothing was
// written yet: ErrBadLastEventID (400), *NotAcceptableError (406),
// projector.ErrUnknownNode (404; the fold has seen the log's head then),
// *NotReadyError or any other (503 with Retry-After). Once the stream is open it
// ends with the request, with the process, or when the client does not read
// within a write timeout.
func (r *Relay) ServeEvents(w http.ResponseWriter, req *http.Request, node policy.NodeID) error {
	after, err := r.lastEventID(req)
	if err != nil {
		return err
	}
	form, err := r.formOf(req, node)
	if err != nil {
		return err
	}
	s := &stream{
		node: node, scope: "node:" + string(node), dialect: form.dialect, tables: form.tables,
		wake: make(chan struct{}, 1), place: -1,
		relay: r, w: w, rc: http.NewResponseController(w), at: after, wrote: time.Now(),
	}
	defer s.leave()
	missed, err := s.resume(req.Context(), after)
	if err != nil {
		return err
	}
	source := SourceLive
	if missed {
		source = SourcePast
	}
	r.opt.Metrics.Resumed(source)
	r.opt.Metrics.Clients(1)
	defer r.opt.Metrics.Clients(-1)

	began := time.Now()
	defer bound(connOf(req))()
	if err = s.head(missed); err == nil {
		err = s.serve(req.Context())
	}
	if err != nil {
		r.opt.Log.Debug("an event stream ended", "node", node, "error", err)
	}
	_ = backoff.Sleep(req.Context(), minStream-time.Since(began))
	return nil
}

// lastEventID reads the header. Absent and empty are the same: from now on.
func (r *Relay) lastEventID(req *http.Request) (policy.EventID, error) {
	text := req.Header.Get("Last-Event-ID")
	if text == "" {
		return r.Position(), nil
	}
	id, err := policy.ParseEventID(text)
	if err != nil {
		return 0, ErrBadLastEventID
	}
	return id, nil
}

// head writes the header, and flushes it unless the first frames follow at once.
func (s *stream) head(follows bool) error {
	h := s.w.Header()
	h.Set("Content-Type", mediaEvents)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Plexsphere-API-Version", "v1")
	h.Set("X-Accel-Buffering", "no")
	s.deadline()
	s.w.WriteHeader(http.StatusOK)
	if follows {
		return nil
	}
	return s.flush()
}

package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// How often the log is looked at for a stream, and how often a stream that says nothing
// says that it is there.
const (
	decisionsPace      = 500 * time.Millisecond
	decisionsKeepAlive = 25 * time.Second
	decisionsPatience  = 30 * time.Second // with who reads nothing
)

func (h *decisionHandlers) follow(c *call) error {
	w, err := c.wantedDecisions()
	if err != nil {
		return err
	}
	after := uint64(math.MaxUint64)
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return problem(http.StatusBadRequest, CodeBadLastEventID, "Last-Event-ID: %.40q is no seq of a decision", text)
		}
	}
	_, last, err := h.extent(c)
	if err != nil {
		return err
	}
	last = min(last, after)
	ctx, cancel := untilStop(c.r.Context())
	defer cancel()
	defer h.auth.revalidate(c, cancel)()
	c.w.Header().Set("Content-Type", mediaSSE)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	s := decisionStream{c: c, rc: http.NewResponseController(c.w)}
	if s.send(":hello\n\n") != nil {
		return nil
	}
	ticker := time.NewTicker(decisionsPace)
	defer ticker.Stop()
	for {
		if last, err = h.tell(s, w, last); err != nil {
			return nil // the client has left, or comes back with its last id
		}
		if s.quiet++; s.quiet > int(decisionsKeepAlive/decisionsPace) {
			if s.send(":keep-alive\n\n") != nil {
				return nil
			}
			s.quiet = 0
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tell sends what was decided after a sequence, and says how far that is.
func (h *decisionHandlers) tell(s decisionStream, w wanted, after uint64) (last uint64, err error) {
	first, last, err := h.extent(s.c)
	if err != nil || last <= after {
		return after, err
	}
	found, err := h.between(s.c, max(first, after+1), last)
	if err != nil {
		return after, err
	}
	for _, d := range found {
		d, ok := w.shown(s.c.who, d)
		if !ok {
			continue
		}
		text, err := json.Marshal(d)
		if err != nil {
			return after, err
		}
		if err := s.send(fmt.Sprintf("id: %d\nevent: decision\ndata: %s\n\n", d.Seq, text)); err != nil {
			return after, err
		}
	}
	return last, nil
}

// decisionStream writes server-sent events.
type decisionStream struct {
	c     *call
	rc    *http.ResponseController
	quiet int
}

func (s decisionStream) send(text string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(decisionsPatience)) // not every connection has one
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

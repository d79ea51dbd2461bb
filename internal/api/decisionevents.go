package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/edictdev/edict/api/resource"
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
	ctx, cancel := untilStop(c.r.Context())
	defer cancel()
	defer h.auth.follow(c, cancel)()
	s := decisionStream{sse: beginSSE(c), w: w, last: min(last, after)}
	if s.send(":hello\n\n") != nil {
		return nil
	}
	live := h.feed.join(last)
	defer live.leave()
	for ctx.Err() == nil {
		if h.tell(ctx, &s, live) != nil {
			return nil // the client has left, or comes back with its last id
		}
	}
	return nil
}

// tell sends what there is, or else waits for more, for as long as a stream may say
// nothing.
func (h *decisionHandlers) tell(ctx context.Context, s *decisionStream, live *following) error {
	found, at, floor, more, err := live.after(s.last)
	switch {
	case err != nil:
		return err
	case floor > 0:
		return h.catchUp(s, floor)
	case at > s.last:
		for _, d := range found {
			if err := s.decision(d.Decision); err != nil {
				return err
			}
		}
		s.last = at
		return s.alive()
	}
	patient, cancel := s.patience(ctx)
	defer cancel()
	select {
	case <-more:
		return nil
	case <-patient.Done():
		return s.alive()
	}
}

// catchUp sends some of what the log has up to a sequence.
func (h *decisionHandlers) catchUp(s *decisionStream, to uint64) error {
	first, _, err := h.extent(s.c)
	if err != nil {
		return err
	}
	from := max(first, s.last+1)
	if to = min(to, from+decisionsAtOnce-1); from <= to {
		if err := h.send(s, from, to); err != nil {
			return err
		}
	}
	s.last = max(to, from-1)
	return s.alive()
}

// send sends what the log has from one sequence to another, as it is read.
func (h *decisionHandlers) send(s *decisionStream, from, to uint64) error {
	for batch, err := range h.log.Read(s.c.r.Context(), from, to) {
		if err != nil {
			return unreadableDecisions(err)
		}
		for _, m := range batch {
			if d, ok := decisionOf(m); ok {
				if err := s.decision(d); err != nil {
					return err
				}
			}
		}
	}
	return s.c.r.Context().Err()
}

// decisionStream writes server-sent events.
type decisionStream struct {
	sse
	w    wanted
	last uint64 // all up to here were sent, as far as they are wanted
}

func (s *decisionStream) decision(d resource.Decision) error {
	d, ok := s.w.shown(s.c.who, d)
	if !ok {
		return nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.send(fmt.Sprintf("id: %d\nevent: decision\ndata: %s\n\n", d.Seq, text))
}

package api

import (
	"errors"
	"net/http"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

func (h *recoveryHandlers) compactLog(c *call) error {
	if c.r.URL.Query().Get("seq") == "" {
		return broken(http.StatusUnprocessableEntity, policy.CodeMissing, "/seq", "the query needs seq, the first event that is kept")
	}
	seq, err := c.queryUint("seq", 0)
	if err != nil {
		return err
	}
	if seq == 0 {
		return broken(http.StatusBadRequest, CodeBadParameter, "/seq", "events are numbered from 1: say which is the first that is kept")
	}
	if h.compact == nil {
		return unreadLog()
	}
	if err := h.gate.check(); err != nil {
		return err
	}
	h.logRequest(c)
	m, err := h.compact(c.r.Context(), seq, c.r.URL.Query().Get("archive"))
	switch {
	case errors.Is(err, snapshot.ErrCompacting):
		return problem(http.StatusConflict, CodeCompactionRunning, "%v", err)
	case errors.Is(err, streams.ErrDenyPurge), errors.As(err, new(*snapshot.BeyondError)):
		return problem(http.StatusConflict, CodeNotCompactable, "%v", err)
	case errors.As(err, new(*streams.DamagedError)): // and no other call heals it
		return problem(http.StatusConflict, CodeNotCompactable, "the log was not compacted to the end: %v; docs/recovery.md says what to do", err)
	case err != nil:
		return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log was not compacted to the end; the same call goes on: %v", err)
	}
	return c.json(http.StatusCreated, resource.LogOrigin{
		Seq: m.Seq, Chain: m.Chain, Digest: m.Digest, Rows: m.Rows, Bytes: m.Bytes, Archive: m.Archive, Created: m.Time, Worker: m.Worker,
	})
}

// unreadableLog is what a read of the log fails with.
func unreadableLog(err error) error {
	if errors.As(err, new(*streams.CompactedError)) {
		return problem(http.StatusGone, CodeLogCompacted, "%v", err)
	}
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log cannot be read: %v", err)
}

package api

import (
	"net/http"
	"time"
)

// How often a stream that says nothing says that it is there, and how long it waits for
// who reads nothing.
const (
	sseKeepAlive = 25 * time.Second
	ssePatience  = 30 * time.Second
)

// sse writes server-sent events of what operators follow. Nodes' streams are the relay's.
type sse struct {
	c  *call
	rc *http.ResponseController
}

// beginSSE answers a request with a stream.
func beginSSE(c *call) sse {
	c.w.Header().Set("Content-Type", mediaSSE)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	return sse{c, http.NewResponseController(c.w)}
}

// send sends frames, or an error when the client has left or reads nothing.
func (s sse) send(text string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(ssePatience)) // not every connection has one
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

package api

import (
	"context"
	"errors"
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
	c    *call
	rc   *http.ResponseController
	said time.Time // when it said something last
}

// beginSSE answers a request with a stream.
func beginSSE(c *call) sse {
	c.w.Header().Set("Content-Type", mediaSSE)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	return sse{c, http.NewResponseController(c.w), time.Now()}
}

// errHeadersOnly ends a stream of which the headers were asked for.
var errHeadersOnly = errors.New("nothing but the headers is wanted")

// send sends frames, or an error when the client has left or reads nothing.
func (s *sse) send(text string) error {
	if s.c.r.Method == http.MethodHead {
		return errHeadersOnly
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(ssePatience)) // not every connection has one
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	s.said = time.Now()
	return s.rc.Flush()
}

// patience ends when the stream must say something, or with ctx.
func (s *sse) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, s.said.Add(sseKeepAlive))
}

// alive says that the stream is there, if it must by now. Whoever looks at much that
// nobody asked for says so as well: what stands in between cuts a silent stream.
func (s *sse) alive() error {
	if time.Since(s.said) < sseKeepAlive {
		return nil
	}
	return s.send(":keep-alive\n\n")
}

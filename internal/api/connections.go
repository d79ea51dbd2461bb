package api

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// connections bounds how many connections a server holds. Each is an open file, and where the
// process may open no more of them, the read model cannot be written and the plane ends. One too
// many ends the connection that has been without a request for longest; where all have one, itself.
type connections struct {
	most int // 0: any number
	log  *slog.Logger

	mu    sync.Mutex
	held  map[net.Conn]*list.Element // its place among the quiet ones; nil: it has a request
	quiet list.List                  // net.Conn, the one that is quiet for longest first
	say   rate.Sometimes             // that connections end
}

// changed takes what net/http says of a connection.
func (h *connections) changed(c net.Conn, s http.ConnState) {
	if h.most == 0 {
		return
	}
	if ended := h.note(c, s); ended != nil {
		h.say.Do(func() {
			h.log.Warn("there are as many connections as the open files of the process allow: for a new one another ends, one without a request first", "of", h.most)
		})
		closeNow(ended)
	}
}

// note is changed, and returns the connection that has to end; nil: none has to.
func (h *connections) note(c net.Conn, s http.ConnState) (ended net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, here := h.held[c]
	if at != nil {
		h.quiet.Remove(at)
	}
	switch {
	case s == http.StateNew:
		if h.held == nil {
			h.held = map[net.Conn]*list.Element{}
		}
		h.held[c] = h.quiet.PushBack(c)
	case !here: // it had to end
		return nil
	case s == http.StateActive:
		h.held[c] = nil
	case s == http.StateIdle:
		h.held[c] = h.quiet.PushBack(c)
	default:
		delete(h.held, c)
	}
	if len(h.held) <= h.most {
		return nil
	}
	ended = h.quiet.Remove(h.quiet.Front()).(net.Conn) // the new one at least
	delete(h.held, ended)
	return ended
}

// closeNow closes a connection, and does not wait for its peer to hear of it.
func closeNow(c net.Conn) {
	if under, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = under.NetConn() // TLS
	}
	_ = c.Close() // whoever reads it finds out
}

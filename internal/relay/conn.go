package relay

import (
	"context"
	"net"
	"net/http"
)

// sendRoom bounds, in bytes, what the system keeps of a stream that its client
// does not read. Left alone it takes megabytes of each before a write blocks:
// until then nothing is conflated, signatures grow old, and a client that never
// reads is not noticed.
const sendRoom = 64 << 10

// connKey finds a request's connection in its context.
type connKey struct{}

// WithConn is the ConnContext of an http.Server that serves streams. Without it
// they work as well, but the system decides how much it keeps of each.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection that req alone uses; nil: it is not known.
func connOf(req *http.Request) *net.TCPConn {
	c, _ := req.Context().Value(connKey{}).(net.Conn)
	if under, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = under.NetConn() // TLS
	}
	tcp, _ := c.(*net.TCPConn)
	if req.ProtoMajor != 1 {
		return nil
	}
	return tcp
}

// bound limits what the system keeps of a stream, until the stream ends and
// after it: a connection that net/http closes because a write was not taken in
// time is reset, or what was not sent would stay in the system for minutes. end
// has a stream that ended otherwise be closed in order. Where the system knows
// no such limits, streams go without.
func bound(c *net.TCPConn) (end func()) {
	if c == nil {
		return func() {}
	}
	_ = c.SetWriteBuffer(sendRoom)
	_ = c.SetLinger(0)
	return func() { _ = c.SetLinger(-1) }
}

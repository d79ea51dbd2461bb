package relay

import (
	"context"
	"net"
	"net/http"
)

// maxSendBuffer bounds, in bytes, what the operating system buffers of a stream
// whose client does not read. By default it buffers megabytes before a write blocks.
// Until then messages are not replaced by newer ones, signatures grow old, and a
// client that reads nothing is not noticed.
const maxSendBuffer = 64 << 10

// connKey finds a request's connection in its context.
type connKey struct{}

// WithConn is the ConnContext of an http.Server that serves streams. Without it
// streams work too, but the operating system decides how much it buffers of each.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection that only req uses; nil if it is not known.
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

// bound limits what the operating system buffers of a stream. It also has the
// connection reset when net/http closes it after a write timeout; otherwise unsent
// bytes would stay in the system for minutes. end restores the ordinary close, for a
// stream that ended in another way. A system that does not support these limits goes
// without them.
func bound(c *net.TCPConn) (end func()) {
	if c == nil {
		return func() {}
	}
	_ = c.SetWriteBuffer(maxSendBuffer)
	_ = c.SetLinger(0)
	return func() { _ = c.SetLinger(-1) }
}

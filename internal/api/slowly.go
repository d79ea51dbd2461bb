package api

import (
	"context"
	"net/http"
	"time"
)

// pieceBytes are what a client must read of an answer before its patience begins anew.
const pieceBytes = 64 << 10

// quietKey is the key of a context that says how long a client may read nothing.
type quietKey struct{}

// quietOf is how long the client of a request may read nothing.
func quietOf(ctx context.Context) time.Duration {
	if quiet, ok := ctx.Value(quietKey{}).(time.Duration); ok {
		return quiet
	}
	return bodyQuiet
}

// slowly writes an answer to a client that may have stopped reading: a part of it is given up
// when none of it was read for so long, and with it the memory that the answer takes.
type slowly struct {
	to    http.ResponseWriter
	quiet time.Duration
}

// answering is the writer of the answer to a call.
func answering(c *call) *slowly { return &slowly{c.w, quietOf(c.r.Context())} }

func (u *slowly) Write(b []byte) (written int, err error) {
	rc := http.NewResponseController(u.to)
	for len(b) > 0 && err == nil {
		var n int
		_ = rc.SetWriteDeadline(time.Now().Add(u.quiet)) // not every connection has one
		n, err = u.to.Write(b[:min(len(b), pieceBytes)])
		b, written = b[n:], written+n
	}
	return written, err
}

// freshDeadline lets an answer begin without what bounded the one before on its connection, and
// last has what is left of it, in buffers, sent in time.
func freshDeadline(w http.ResponseWriter) (last func(quiet time.Duration)) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // not every connection has one
	return func(quiet time.Duration) { _ = rc.SetWriteDeadline(time.Now().Add(quiet)) }
}

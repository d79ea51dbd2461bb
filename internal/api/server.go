package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/edictdev/edict/internal/relay"
)

// Server serves the API on one listener.
type Server struct {
	// Handler is what New returned.
	Handler http.Handler
	// Grace is how long requests may go on after the server was asked to stop;
	// 0 is 3 s. Then their contexts end, and a second later their connections. Event
	// streams, and tables that are being made, end at once.
	Grace time.Duration
	// HeaderTimeout is how long a client may take to send the headers of a
	// request; 0 is 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long it may take to send the rest of a body that the
	// route did not read, and how long a client may take for 64 KiB of an answer; 0 is 30 s.
	BodyTimeout time.Duration
	// Trace gets what net/http has to say; nil: silent.
	Trace *slog.Logger
	// TLS of the listener; nil: none.
	TLS *tls.Config
	// Connections is how many are held at most; 0: any number. For one more the one ends that has
	// been without a request for longest.
	Connections int
}

// Run serves until ctx ends, then lets requests finish and returns nil. There
// is no write timeout, because event streams and large answers last: whoever writes a stream
// sets its own deadlines, and an answer has one for each part.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	trace := s.Trace
	if trace == nil {
		trace = slog.New(slog.DiscardHandler)
	}
	drain, stopStreams := context.WithCancel(context.Background())
	defer stopStreams()
	requests, giveUp := context.WithCancelCause(context.Background())
	defer giveUp(nil)
	held := connections{most: s.Connections, log: trace, say: rate.Sometimes{Interval: time.Minute}}
	srv := &http.Server{
		ConnState:         held.changed,
		Handler:           bounded(s.Handler, cmp.Or(s.BodyTimeout, bodyQuiet)),
		ReadHeaderTimeout: cmp.Or(s.HeaderTimeout, 5*time.Second),
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			boundUnsent(c)
			return relay.WithConn(ctx, c)
		},
		ErrorLog: slog.NewLogLogger(trace.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithValue(requests, drainKey{}, drain), quietKey{}, cmp.Or(s.BodyTimeout, bodyQuiet))
		},
	}
	failed := make(chan error, 1)
	if s.TLS != nil {
		srv.TLSConfig = s.TLS.Clone()
		go func() { failed <- srv.ServeTLS(l, "", "") }()
	} else {
		go func() { failed <- srv.Serve(l) }()
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	stopStreams()
	grace := cmp.Or(s.Grace, 3*time.Second)
	if err := shutdown(srv, grace); err != nil {
		trace.Warn("requests were cut off", "seconds", grace.Seconds())
		giveUp(errStopping)
		if shutdown(srv, time.Second) != nil {
			_ = srv.Close() // they had their time
		}
	}
	<-failed
	return nil
}

// errStopping ends what requests still compute when a server stops.
var errStopping = errors.New("the server stops")

// shutdown lets requests finish, for so long.
func shutdown(srv *http.Server, grace time.Duration) error {
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return srv.Shutdown(late)
}

// bounded bounds how long a body that its route does not read keeps a request:
// net/http waits for the rest of it before it answers. One that its route waited
// for in vain is waited for no longer. So is who reads nothing of the end of an answer.
func bounded(h http.Handler, quiet time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last, rest := freshDeadline(w), quiet
		defer func() { last(rest) }()
		if r.ContentLength != 0 {
			rest += quiet // what is left of the body comes before what is left of the answer
			body := &brokenBody{ReadCloser: r.Body}
			// net/http looks at its own request, and waits for no body that it asked
			// nobody for (Expect: 100-continue).
			r = r.WithContext(r.Context())
			r.Body = body
			bound := func() {
				wait := quiet
				if body.broken {
					wait = 0
				}
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait))
			}
			bound()
			defer bound() // a route that read a part of it may have lifted it
		}
		h.ServeHTTP(w, r)
	})
}

// brokenBody is a body that knows whether its reading failed.
type brokenBody struct {
	io.ReadCloser
	broken bool
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.broken = b.broken || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

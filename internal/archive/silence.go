package archive

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// A store that says nothing for so long has lost the request, which is sent again. One that
// does so again and again would hold a command for ever.
const (
	patience     = time.Minute
	mostSilences = 2 // in a row
)

var errSilent = errors.New("the store is silent: for a minute it took nothing and sent nothing; see what it does, and run the same command again")

// silence watches the connections to a store.
type silence struct {
	patience time.Duration
	giveUp   context.CancelCauseFunc
	times    atomic.Int32 // since a byte came
}

// dial has each connection that dial makes be watched.
func (s *silence) dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watched{conn, s}, nil
	}
}

// watched is a connection that ends when nothing passes it.
type watched struct {
	net.Conn
	by *silence
}

func (w *watched) Read(to []byte) (n int, err error) {
	if err = w.SetReadDeadline(time.Now().Add(w.by.patience)); err != nil {
		return 0, err
	}
	n, err = w.Conn.Read(to)
	if n > 0 {
		w.by.times.Store(0)
	}
	return n, w.by.judge(err)
}

// Write has the answer be waited for from here on, too: it is read for while a request is
// sent, which may take longer than a store may be silent.
func (w *watched) Write(from []byte) (n int, err error) {
	if err = w.SetDeadline(time.Now().Add(w.by.patience)); err != nil {
		return 0, err
	}
	n, err = w.Conn.Write(from)
	return n, w.by.judge(err)
}

func (s *silence) judge(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if s.times.Add(1) >= mostSilences {
		s.giveUp(errSilent)
	}
	return errSilent
}

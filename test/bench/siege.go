package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	neverRead = 1_000
	drip      = 1_000 // clients that send a byte a second
)

// siege is the hostile clients before a server.
type siege struct {
	addr   string
	silent []net.Conn
	drips  []*dripping

	stop    context.CancelFunc // of those that drip
	ended   chan error
	returns int // of those that drip, when the server had enough of one
}

// besiege opens streams that are never read, and has others begin requests that
// they never end.
func besiege(ctx context.Context, s *stage) (b *siege, err error) {
	b = &siege{addr: s.addr, ended: make(chan error, 1)}
	for i := range neverRead {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return nil, errors.Join(err, b.leave())
		}
		b.silent = append(b.silent, conn)
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			return nil, errors.Join(err, b.leave())
		}
		if _, err := fmt.Fprintf(conn, "GET /v1/nodes/%s/events HTTP/1.1\r\nHost: %s\r\n\r\n", nodeName(i%clients), s.addr); err != nil {
			return nil, errors.Join(err, b.leave())
		}
	}
	ctx, b.stop = context.WithCancel(ctx)
	go func() { b.ended <- b.dripOn(ctx) }()
	return b, nil
}

// dripping is a client that sends a byte a second.
type dripping struct {
	conn net.Conn
	sent int
	gone atomic.Bool // the server has had enough
	done sync.WaitGroup
}

// dripOn has every such client send a byte in its turn, once a second, for ever:
// one that was let go comes again. One goroutine sends for all of them, because
// they share the machine with the server.
func (b *siege) dripOn(ctx context.Context) error {
	request := "GET /v1/status HTTP/1.1\r\nHost: " + b.addr + "\r\nX-Pad: " + strings.Repeat("x", 1000)
	b.drips = make([]*dripping, drip)
	tick := time.NewTicker(time.Second / drip)
	defer tick.Stop()
	for n, began := 0, time.Now(); ; {
		for ; n < int(time.Since(began)*drip/time.Second); n++ {
			d := b.drips[n%drip]
			if d != nil && d.gone.Load() {
				d.close()
				d, b.returns = nil, b.returns+1
			}
			if d == nil {
				var err error
				if d, err = dialDripping(b.addr); err != nil {
					return err
				}
				b.drips[n%drip] = d
			}
			if _, err := io.WriteString(d.conn, request[d.sent:d.sent+1]); err == nil {
				d.sent++ // else its reader notices as well
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func dialDripping(addr string) (*dripping, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	d := &dripping{conn: conn}
	d.done.Go(func() {
		_, _ = io.Copy(io.Discard, conn) // until either side ends it
		d.gone.Store(true)
	})
	return d, nil
}

func (d *dripping) close() {
	d.conn.Close()
	d.done.Wait()
}

// calm ends the clients that drip. Those that never read stay.
func (b *siege) calm() (err error) {
	if b.stop == nil {
		return nil
	}
	b.stop()
	b.stop = nil
	err = <-b.ended
	for _, d := range b.drips {
		if d != nil {
			d.close()
		}
	}
	return err
}

// leave ends every hostile connection.
func (b *siege) leave() error {
	err := b.calm()
	for _, conn := range b.silent {
		err = errors.Join(err, conn.Close())
	}
	b.silent = nil
	return err
}

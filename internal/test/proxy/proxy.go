// Package proxy is a TCP proxy that stands between two processes on this machine
// and does ill to what passes: tests cut the wire with it.
package proxy

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ill is what a proxy does to what passes it.
type Ill int

// All that can happen to a wire.
const (
	Well      Ill = iota
	Slow          // every piece is late
	Truncated     // some bytes pass, then the connection ends
	Blackhole     // nothing passes, and nobody is told
	Reset         // connections end at once, with a reset
	Refused       // connections end, and new ones as soon as they are made
	UpCut         // what the client sends does not pass, what the server sends does
	DownCut       // the reverse
)

// Ills is how many there are, being well included.
const Ills = int(DownCut) + 1

// String names it for a log line.
func (i Ill) String() string {
	return []string{"well", "slow", "truncated", "blackhole", "reset", "refused", "upstream cut", "downstream cut"}[i]
}

// Proxy stands between a client and a server on this machine and does them
// ill.
type Proxy struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu    sync.Mutex
	now   Ill
	left  int           // bytes that pass yet, when truncated
	heal  chan struct{} // closed at the next change
	conns map[net.Conn]bool
	draw  *rand.Rand
}

// New is a proxy to a TCP address, until the test ends. What it draws it draws
// from seed.
func New(t testing.TB, target string, seed uint64) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: l, target: target, heal: make(chan struct{}), conns: map[net.Conn]bool{}, draw: rand.New(rand.NewPCG(seed, 5))}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		p.Become(Refused)
		l.Close()
		p.done.Wait()
	})
	return p
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.done.Go(func() { p.pass(server, client, UpCut) })
		p.done.Go(func() { p.pass(client, server, DownCut) })
	}
}

// keep notes both ends, unless nothing may be open now.
func (p *Proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == Refused {
		return false
	}
	for _, c := range ends {
		p.conns[c] = true
	}
	return true
}

// Become changes what is done from now on.
func (p *Proxy) Become(now Ill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.now
	p.now = now
	p.left = 1 + p.draw.IntN(4000)
	close(p.heal)
	p.heal = make(chan struct{})
	// What a black hole swallowed is gone: the connection must not go on as if
	// it had come through.
	if now == Reset || now == Refused || was == Blackhole || was == UpCut || was == DownCut {
		for c := range p.conns {
			if now == Reset {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		}
	}
}

// pass copies until either side ends. cut is the ill by which this direction alone does not
// pass.
func (p *Proxy) pass(to, from net.Conn, cut Ill) {
	defer func() {
		p.mu.Lock()
		delete(p.conns, to)
		delete(p.conns, from)
		p.mu.Unlock()
		to.Close()
		from.Close()
	}()
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.send(to, buf[:n], cut) || err != nil {
			return
		}
	}
}

// send passes on one piece, or what becomes of it; false: the connection ends.
func (p *Proxy) send(to io.Writer, b []byte, cut Ill) bool {
	p.mu.Lock()
	now, heal := p.now, p.heal
	late := time.Duration(p.draw.IntN(8)) * time.Millisecond
	if now == Truncated {
		b = b[:min(len(b), p.left)]
		p.left -= len(b)
	}
	last := now == Truncated && p.left == 0
	p.mu.Unlock()
	if now == cut {
		now = Blackhole
	}
	switch now {
	case Slow:
		select {
		case <-time.After(late):
		case <-heal:
		}
	case Blackhole:
		<-heal
		return false
	}
	_, err := to.Write(b)
	return err == nil && !last
}

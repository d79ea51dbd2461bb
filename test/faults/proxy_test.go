package faults

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ill is what a proxy does to what passes it.
type ill int

const (
	well      ill = iota
	slow          // every piece is late
	truncated     // some bytes pass, then the connection ends
	blackhole     // nothing passes, and nobody is told
	reset         // connections end at once, with a reset
	refused       // connections end, and new ones as soon as they are made
	ills
)

// String names it for a log line.
func (i ill) String() string {
	return []string{"well", "slow", "truncated", "blackhole", "reset", "refused"}[i]
}

// proxy stands between a client and a server on this machine and does them
// ill.
type proxy struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu    sync.Mutex
	now   ill
	left  int           // bytes that pass yet, when truncated
	heal  chan struct{} // closed at the next change
	conns map[net.Conn]bool
	draw  *rand.Rand
}

func newProxy(t testing.TB, target string, seed uint64) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target, heal: make(chan struct{}), conns: map[net.Conn]bool{}, draw: rand.New(rand.NewPCG(seed, 5))}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		p.become(refused)
		l.Close()
		p.done.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
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
		p.done.Go(func() { p.pass(server, client) })
		p.done.Go(func() { p.pass(client, server) })
	}
}

// keep notes both ends, unless nothing may be open now.
func (p *proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == refused {
		return false
	}
	for _, c := range ends {
		p.conns[c] = true
	}
	return true
}

// become changes what is done from now on.
func (p *proxy) become(now ill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.now
	p.now = now
	p.left = 1 + p.draw.IntN(4000)
	close(p.heal)
	p.heal = make(chan struct{})
	// What a black hole swallowed is gone: the connection must not go on as if
	// it had come through.
	if now == reset || now == refused || was == blackhole {
		for c := range p.conns {
			if now == reset {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		}
	}
}

// pass copies until either side ends.
func (p *proxy) pass(to, from net.Conn) {
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
		if n > 0 && !p.send(to, buf[:n]) || err != nil {
			return
		}
	}
}

// send passes on one piece, or what becomes of it; false: the connection ends.
func (p *proxy) send(to io.Writer, b []byte) bool {
	p.mu.Lock()
	now, heal := p.now, p.heal
	late := time.Duration(p.draw.IntN(8)) * time.Millisecond
	if now == truncated {
		b = b[:min(len(b), p.left)]
		p.left -= len(b)
	}
	cut := now == truncated && p.left == 0
	p.mu.Unlock()
	switch now {
	case slow:
		select {
		case <-time.After(late):
		case <-heal:
		}
	case blackhole:
		<-heal
		return false
	}
	_, err := to.Write(b)
	return err == nil && !cut
}

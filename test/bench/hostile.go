package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	neverRead  = 1_000
	drip       = 1_000                  // clients that send a byte a second
	pace       = 2 * time.Millisecond   // between events for one client each
	paced      = 5_000                  // of them, in each round
	stuffing   = 64                     // events for everybody, to fill what does not read
	calmWithin = 45 * time.Second       // above the write timeout, after which who does not read is let go
	calmLook   = 500 * time.Millisecond // how often it is looked whether that is so
)

// hostile measures how late events come to clients that read, beside clients
// that never read and clients that send a byte of their request a second, and
// what is left of those when they are gone. Its floor is the same without them.
func hostile(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s, err := planeStage(ctx, e, true, "--durability", "relaxed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.crowd.keep = true
	// The same events come first with nobody there to stand still: what the plane
	// keeps in memory for who comes back is full then, and not their doing.
	if err = errors.Join(s.sendAll(ctx, 2*stuffing), s.quiet(ctx)); err != nil {
		return nil, err
	}
	var alone, beside samples
	if alone, err = s.pacedRounds(ctx, e); err != nil {
		return nil, err
	}
	before, err := s.atRest(ctx)
	if err != nil {
		return nil, err
	}
	besiegers, err := besiege(ctx, s)
	if err != nil {
		return nil, err
	}
	beside, err = s.pacedRounds(ctx, e)
	busy, err2 := goMetrics(ctx, s.child)
	if err = errors.Join(err, err2, besiegers.leave()); err != nil {
		return nil, err
	}
	after, err := s.atRest(ctx)
	if err != nil {
		return nil, err
	}
	const mib = 1 << 20
	l := figure("p99", "ms", beside).beside("the same without them", alone).ratioAtMost(1.5)
	l.note("%s clients that read, %s that never do and %s that send a byte a second (%s times such a one was let go and came back); an event every %s",
		grouped(clients), grouped(neverRead), grouped(drip), grouped(int64(besiegers.returns)), pace)
	g := figure("goroutines afterwards", "", samples{after["go_goroutines"]}).beside("before", samples{before["go_goroutines"]}).ratioAtMost(1.1)
	g.note("%s goroutines while they were there", grouped(int64(busy["go_goroutines"])))
	m := figure("live memory afterwards", "MiB", samples{after[liveMemory] / mib}).beside("before", samples{before[liveMemory] / mib}).ratioAtMost(1.1)
	m.note("%s MiB while they were there; the heap that is live or not yet collected, and stacks", short(busy[liveMemory]/mib))
	return []line{*l, *g, *m}, nil
}

// pacedRounds has events come at a pace that leaves the machine room, and
// returns each round's p99 from publication to arrival, in ms.
func (s *stage) pacedRounds(ctx context.Context, e *env) (p99 samples, err error) {
	for range e.rounds() {
		s.forget()
		if err := s.crowd.connect(ctx, connectAtOnce, false); err != nil {
			return nil, err
		}
		n := e.scale(paced)
		send := s.toEach(n)
		tick := time.NewTicker(pace)
		var sent sync.WaitGroup
		faults := make(chan error, n)
		for i := range n {
			<-tick.C
			at := time.Now()
			sent.Go(func() {
				cause, err := send(ctx, i)
				faults <- err
				s.expect(cause, at, i%clients)
			})
		}
		tick.Stop()
		sent.Wait()
		for range n {
			err = errors.Join(err, <-faults)
		}
		if err == nil {
			err = s.crowd.await(ctx, n)
		}
		s.crowd.part()
		if err = errors.Join(err, s.crowd.check(s.want)); err != nil {
			return nil, err
		}
		late, _ := s.latencies()
		p99 = append(p99, late.at(0.99))
		say("  p50 %s ms, p99 %s ms", short(late.at(0.5)), short(late.at(0.99)))
	}
	return p99, nil
}

const liveMemory = "live"

// atRest reads the process's own figures at rest: when it has collected what it
// left, so the least of each within the time that who does not read is given.
func (s *stage) atRest(ctx context.Context) (map[string]float64, error) {
	var least map[string]float64
	for began := time.Now(); time.Since(began) < calmWithin; time.Sleep(calmLook) {
		now, err := goMetrics(ctx, s.child)
		if err != nil {
			return nil, err
		}
		if least == nil {
			least = now
		}
		for _, name := range []string{"go_goroutines", liveMemory} {
			least[name] = min(least[name], now[name])
		}
	}
	return least, nil
}

// siege is the hostile clients.
type siege struct {
	silent  []net.Conn
	stop    context.CancelFunc
	ended   sync.WaitGroup
	mu      sync.Mutex
	returns int
}

// besiege opens streams that are never read, fills them, and has others begin
// requests that they never end.
func besiege(ctx context.Context, s *stage) (*siege, error) {
	b := &siege{}
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
	if err := s.sendAll(ctx, stuffing); err != nil {
		return nil, errors.Join(err, b.leave())
	}
	ctx, b.stop = context.WithCancel(ctx)
	for range drip {
		b.ended.Go(func() { b.dripOn(ctx, s.addr) })
	}
	return b, s.quiet(ctx)
}

// dripOn sends requests a byte a second, for ever: a client that is let go comes
// again.
func (b *siege) dripOn(ctx context.Context, addr string) {
	request := "GET /v1/status HTTP/1.1\r\nHost: " + addr + "\r\nX-Pad: " + strings.Repeat("x", 1000)
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return // the server is gone, which its other clients notice
		}
		gone := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, conn) // until the server has had enough
			close(gone)
		}()
		dripOnce(ctx, conn, request, gone)
		conn.Close()
		<-gone
		b.mu.Lock()
		b.returns++
		b.mu.Unlock()
	}
}

func dripOnce(ctx context.Context, conn net.Conn, request string, gone <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := range len(request) {
		if _, err := io.WriteString(conn, request[i:i+1]); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

// leave ends every hostile connection.
func (b *siege) leave() (err error) {
	for _, conn := range b.silent {
		err = errors.Join(err, conn.Close())
	}
	if b.stop != nil {
		b.stop()
	}
	b.ended.Wait()
	return err
}

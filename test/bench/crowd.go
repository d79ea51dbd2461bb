package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/streams"
)

// crowd are clients that each follow one event stream. They do as little as a
// client can, because server and clients share the machine.
type crowd struct {
	addr    string
	trust   *tls.Config // nil: without TLS
	accept  string      // what its members ask for; empty: the field's agents' form
	members []*member
	heard   atomic.Int64 // events since the crowd connected
	bytes   atomic.Int64 // of their data
	wake    chan struct{}
	keep    bool         // remember when each event came
	refused atomic.Int64 // streams that were answered 503, and asked for again
}

// member is one client; its fields are its goroutine's while it is connected.
type member struct {
	path string
	conn net.Conn
	done chan error

	last   uint64    // id of the last event
	asked  time.Time // when this connection's request was sent
	causes []uint64  // of the events of this connection
	times  []arrival // when the crowd keeps them
	faults []string
}

// arrival is when the event of a cause came.
type arrival struct {
	cause uint64
	at    time.Time
}

func newCrowd(addr string, paths []string) *crowd {
	c := &crowd{addr: addr, wake: make(chan struct{}, 1)}
	for _, p := range paths {
		c.members = append(c.members, &member{path: p})
	}
	return c
}

// connect opens every stream, so many at a time, and returns when every
// response has begun. With resume each goes on after its last event.
func (c *crowd) connect(ctx context.Context, atOnce int, resume bool) error {
	c.heard.Store(0)
	c.bytes.Store(0)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, m := range c.members {
		g.Go(func() error {
			err := c.open(ctx, m, resume)
			for errors.Is(err, errUnavailable) && ctx.Err() == nil {
				// The server asks for a second; a stream is not lost by it.
				c.refused.Add(1)
				time.Sleep(time.Second)
				err = c.open(ctx, m, resume)
			}
			if err != nil {
				return fmt.Errorf("connect to %s: %w", m.path, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// What a stream is asked for: in the form of the node's principal, which is that
// of the field's agents, or with one signature over a whole round of frames.
const (
	eventStream = "text/event-stream"
	inRuns      = eventStream + ";dialect=batch"
)

// errUnavailable is a 503: come again.
var errUnavailable = errors.New("unavailable")

func (c *crowd) open(ctx context.Context, m *member, resume bool) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	if c.trust != nil {
		own := c.trust.Clone()
		own.ServerName, _, _ = net.SplitHostPort(c.addr) // it was dialled
		conn = tls.Client(conn, own)
	}
	head := "GET " + m.path + " HTTP/1.1\r\nHost: " + c.addr + "\r\nAccept: " + cmp.Or(c.accept, eventStream) + "\r\n"
	if resume {
		head += "Last-Event-ID: " + strconv.FormatUint(m.last, 10) + "\r\n"
	}
	m.asked = time.Now()
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return errors.Join(err, conn.Close())
	}
	const window = 16 << 10 // above a line of an event
	r := bufio.NewReaderSize(conn, window)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return errors.Join(errUnavailable, conn.Close())
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, text), conn.Close())
	}
	m.conn, m.done = conn, make(chan error, 1)
	m.causes, m.times = nil, nil
	body := bufio.NewReaderSize(resp.Body, window)
	go func() { m.done <- c.listen(m, body) }()
	return nil
}

// listen reads events until the connection ends.
func (c *crowd) listen(m *member, r *bufio.Reader) error {
	var id, cause uint64
	var event string
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = line[:len(line)-1]
		switch {
		case len(line) == 0 && event != "":
			c.took(m, id, cause, event)
			event = ""
		case bytes.HasPrefix(line, []byte("id: ")):
			if id, err = strconv.ParseUint(string(line[len("id: "):]), 10, 64); err != nil {
				return err
			}
		case bytes.HasPrefix(line, []byte("event: ")):
			event = string(line[len("event: "):])
		case bytes.HasPrefix(line, []byte("data: ")):
			c.bytes.Add(int64(len(line) - len("data: ")))
			cause = causeOf(id, line)
		}
	}
}

// took notes one event.
func (c *crowd) took(m *member, id, cause uint64, event string) {
	if event != "policy_updated" {
		m.faults = append(m.faults, fmt.Sprintf("%s: event %d is %s", m.path, id, event))
		return
	}
	if id <= m.last {
		m.faults = append(m.faults, fmt.Sprintf("%s: event %d came after %d", m.path, id, m.last))
	}
	m.last = id
	m.causes = append(m.causes, cause)
	if c.keep {
		m.times = append(m.times, arrival{cause, time.Now()})
	}
	c.heard.Add(1)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// causeOf is what an event is the doing of: an event of the log, by its place in
// the id (place is its inverse), or what the plain hub was sent.
func causeOf(id uint64, data []byte) uint64 {
	_, rest, hub := bytes.Cut(data, []byte(`"cause":"`))
	if !hub {
		return id >> numberBits
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	n, _ := strconv.ParseUint(string(text), 10, 64)
	return n
}

// numberBits are those of an event id below the event's place.
const numberBits = 22

// place is where ids have an event of a log.
func place(log *streams.Log, seq uint64) uint64 { return log.Base() + seq }

// await returns when n events have been heard since the crowd connected.
func (c *crowd) await(ctx context.Context, n int) error {
	for c.heard.Load() < int64(n) {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d events came: %w", c.heard.Load(), n, ctx.Err())
		}
	}
	return nil
}

// part closes every connection and waits for its reader, so that what members
// noted may be read.
func (c *crowd) part() {
	var readers sync.WaitGroup
	for _, m := range c.members {
		if m.conn == nil {
			continue
		}
		m.conn.Close()
		m.conn = nil
		readers.Go(func() { <-m.done })
	}
	readers.Wait()
}

// check wants every member to have heard of each of its causes once. The crowd
// must have parted.
func (c *crowd) check(want [][]uint64) error {
	var faults []string
	for i, m := range c.members {
		faults = append(faults, m.faults...)
		seen := map[uint64]int{}
		for _, x := range m.causes {
			seen[x]++
		}
		for _, x := range want[i] {
			if seen[x] != 1 {
				faults = append(faults, fmt.Sprintf("%s heard of event %d %d times", m.path, x, seen[x]))
			}
		}
		if len(m.causes) != len(want[i]) {
			faults = append(faults, fmt.Sprintf("%s heard %d events, not %d", m.path, len(m.causes), len(want[i])))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	const shown = 5
	return fmt.Errorf("%d faults: %s", len(faults), strings.Join(faults[:min(shown, len(faults))], "; "))
}

// eventBytes is the mean size of an event's data.
func (c *crowd) eventBytes() int { return int(c.bytes.Load() / max(c.heard.Load(), 1)) }

package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// queue stands between the client's delivering goroutine and the reader. It
// holds a bounded number of messages, gives them in batches, and fails for good
// when one went missing or the connection ended.
type queue struct {
	down  context.Context // ends with the connection
	ready chan struct{}   // one signal: there is something to look at
	room  chan struct{}   // one signal: there is room again
	done  chan struct{}   // closed by the reader
	most  int             // of msgs

	mu       sync.Mutex
	msgs     []Message
	bytes    int
	consumer uint64 // the consumer's sequence of the last message
	pending  uint64 // messages the server had after it
	err      error
}

// errQuiet: nothing came for a while.
var errQuiet = errors.New("quiet")

func newQueue(down context.Context, delivered uint64, most int) *queue {
	return &queue{
		most:     most,
		down:     down,
		ready:    make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		consumer: delivered,
		pending:  1, // unknown
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// put takes a message from the client and blocks while the queue is full. The
// consumer's own sequence shows a message lost on the way; one that the stream
// lacks leaves no gap in it.
func (q *queue) put(m jetstream.Msg) {
	d, ok := parseDelivery(m.Reply())
	if !ok {
		q.fail(fmt.Errorf("%w: delivery %q cannot be read", errRestart, m.Reply()))
		return
	}
	msg := Message{Seq: d.streamSeq, Subject: m.Subject(), Body: m.Data(), Header: m.Headers(), Time: d.time}
	q.mu.Lock()
	for q.err == nil && (len(q.msgs) >= q.most || q.bytes >= followBytes) {
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-q.done:
			return
		}
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return
	case d.consumerSeq != q.consumer+1:
		q.err = fmt.Errorf("%w: a message was lost on the way", errRestart)
	default:
		q.consumer, q.pending = d.consumerSeq, d.pending
		q.msgs = append(q.msgs, msg)
		q.bytes += msg.Size()
	}
	signal(q.ready)
}

func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = fmt.Errorf("%w: %w", errRestart, err)
	}
	signal(q.ready)
	signal(q.room)
}

func (q *queue) close() { close(q.done) }

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.msgs) == 0
}

// received is the consumer's sequence of the last message that came.
func (q *queue) received() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.consumer
}

// take waits for messages and returns all there are, at most followBatch and
// followTogether, with the number the server had beyond the last that came. What came before a
// failure is given before it, but nothing once ctx has ended: a reader that is slower
// than the server finds the queue full for as long as the log is. quiet > 0 bounds the
// wait: errQuiet.
func (q *queue) take(ctx context.Context, quiet time.Duration) (batch []Message, pending uint64, err error) {
	var alarm <-chan time.Time
	if quiet > 0 {
		t := time.NewTimer(quiet)
		defer t.Stop()
		alarm = t.C
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if batch, pending, err = q.now(); batch != nil || err != nil {
			return batch, pending, err
		}
		select {
		case <-q.ready:
		case <-alarm:
			return nil, 0, errQuiet
		case <-q.down.Done():
			q.fail(errors.New("connection lost"))
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func (q *queue) now() ([]Message, uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.msgs) == 0 {
		return nil, q.pending, q.err
	}
	n, bytes := 1, q.msgs[0].Size()
	for ; n < min(len(q.msgs), followBatch); n++ {
		size := q.msgs[n].Size()
		if bytes+size > followTogether {
			break
		}
		bytes += size
	}
	q.bytes -= bytes
	batch := q.msgs[:n:n]
	if n == len(q.msgs) {
		q.msgs = nil
	} else {
		// What stays would keep the bodies of what goes.
		batch = slices.Clone(batch)
		clear(q.msgs[:n])
		q.msgs = q.msgs[n:]
	}
	signal(q.room)
	return batch, q.pending, nil
}

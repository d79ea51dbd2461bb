package api

import (
	"context"
	"sync"
	"time"
)

// headReader reads the log's last sequence for many at once: requests that
// arrived before a read began share it. A fleet that pulls together costs two
// reads, and none of them gets an answer older than its arrival.
type headReader struct {
	log Log

	mu      sync.Mutex
	next    *headRead // not begun yet
	running bool
}

type headRead struct {
	done chan struct{}
	last uint64
	err  error
}

// headPatience bounds one read, whoever waits for it.
const headPatience = 5 * time.Second

func newHeadReader(log Log) *headReader { return &headReader{log: log} }

// Last is the sequence of the log's last event, as its leader gives it after
// the call began.
func (h *headReader) Last(ctx context.Context) (uint64, error) {
	h.mu.Lock()
	if h.next == nil {
		h.next = &headRead{done: make(chan struct{})}
	}
	read := h.next
	if !h.running {
		h.running = true
		go h.run()
	}
	h.mu.Unlock()
	select {
	case <-read.done:
		return read.last, read.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run reads until nobody waits.
func (h *headReader) run() {
	for {
		h.mu.Lock()
		read := h.next
		h.next = nil
		h.running = read != nil
		h.mu.Unlock()
		if read == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), headPatience)
		read.last, read.err = h.log.Head(ctx)
		cancel()
		close(read.done)
	}
}

package streams

import (
	"context"
	"sync"
	"time"
)

// headReader reads the log's last sequence for many at once: those who asked
// before a read began share it. A fleet that comes back together costs two reads,
// and nobody in it gets an answer older than the question.
type headReader struct {
	read func(context.Context) (uint64, error)

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

// last is what a read gives that begins after the call.
func (h *headReader) last(ctx context.Context) (uint64, error) {
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
		read.last, read.err = h.read(ctx)
		cancel()
		close(read.done)
	}
}

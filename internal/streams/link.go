package streams

import (
	"context"
	"sync"
	"time"
)

// link tells whoever waits on the connection that it was lost or found. A
// message that was under way when it was lost is gone: followers begin again,
// publishers learn that they will get no answer.
type link struct {
	mu     sync.Mutex
	alive  context.Context // ends when the present connection does
	kill   context.CancelFunc
	up     chan struct{} // closed while connected
	closed error         // why it will not come back

	patience time.Duration // how long one that was lost is waited for; 0: for ever
	waiting  *time.Timer   // nil: it is not, or for ever
}

func newLink(patience time.Duration) *link {
	l := &link{up: make(chan struct{}), patience: patience}
	close(l.up)
	l.alive, l.kill = context.WithCancel(context.Background())
	return l
}

// down ends when the present connection does; it has ended while there is none.
func (l *link) down() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive
}

// lost has giveUp called where the connection does not come back in time.
func (l *link) lost(giveUp func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
	if l.patience > 0 && l.waiting == nil && l.closed == nil {
		l.waiting = time.AfterFunc(l.patience, giveUp)
	}
	select {
	case <-l.up:
		l.up = make(chan struct{})
	default:
	}
}

func (l *link) found() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
	l.alive, l.kill = context.WithCancel(context.Background())
	l.rest()
	select {
	case <-l.up:
	default:
		close(l.up)
	}
}

// rest stops waiting.
func (l *link) rest() {
	if l.waiting != nil {
		l.waiting.Stop()
		l.waiting = nil
	}
}

// close wakes everyone: the connection will not come back, and why is what the first says.
func (l *link) close(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
	l.rest()
	if l.closed == nil {
		l.closed = why
	}
	select {
	case <-l.up:
	default:
		close(l.up)
	}
}

// over is why the connection will not come back; nil: it may.
func (l *link) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// await returns when there is a connection, with the context that ends with it.
func (l *link) await(ctx context.Context) (context.Context, error) {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return nil, l.closed
	}
	return l.alive, nil // ended already when it was lost again: the caller comes back
}

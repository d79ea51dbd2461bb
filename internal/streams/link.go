package streams

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// link tells whoever waits on the connection that it was lost or found. A
// message that was under way when it was lost is gone: followers begin again,
// publishers learn that they will get no answer.
type link struct {
	mu     sync.Mutex
	alive  context.Context // ends when the present connection does
	kill   context.CancelFunc
	up     chan struct{} // closed while connected
	closed bool
}

func newLink() *link {
	l := &link{up: make(chan struct{})}
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

func (l *link) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
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
	select {
	case <-l.up:
	default:
		close(l.up)
	}
}

// close wakes everyone: the connection will not come back.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
	l.closed = true
	select {
	case <-l.up:
	default:
		close(l.up)
	}
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
	if l.closed {
		return nil, nats.ErrConnectionClosed
	}
	return l.alive, nil // ended already when it was lost again: the caller comes back
}

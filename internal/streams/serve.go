package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// serveGroup makes the processes of a plane share requests: one answers each.
const serveGroup = "edict"

// serveAtOnce bounds the requests one service answers at the same time, and
// serveEach those of one subject: whoever sends more than that, and it is one
// node's subject, takes no turn from others.
const (
	serveAtOnce = 64
	serveEach   = 4
)

// Reply sends one message of an answer.
type Reply func(header map[string][]string, body []byte) error

// Bounds say how many requests a service answers at the same time.
type Bounds struct {
	AtOnce int // of all; what comes beyond waits
	Each   int // of those from one source
	// Source says whose request one on a subject is; nil: each subject is a source.
	Source func(subject string) string
	// Refuse answers what a source asks beyond Each; nil: it has no answer. It must
	// not block.
	Refuse func(subject string, reply Reply)
	// Serving is called once, before the first request; nil: nothing is.
	Serving func()
}

var errNoReply = errors.New("the request has no reply subject")

// Serve answers requests on subject (wildcards allowed) with f until ctx ends,
// then waits for the answers under way and returns nil. Calls of f run at the
// same time, a few of one subject; what comes for it beyond these has no answer.
// Each may reply any number of times, in order. Of all processes that serve a
// subject one gets each request. Core NATS: a request made while nobody serves
// is not kept. serving is called before the first request.
func (c *Conn) Serve(ctx context.Context, subject string, serving func(), f func(subject string, body []byte, reply func(header map[string][]string, body []byte) error)) error {
	return c.ServeWithin(ctx, subject, Bounds{AtOnce: serveAtOnce, Each: serveEach, Serving: serving}, func(subject string, body []byte, reply Reply) { f(subject, body, reply) })
}

// ServeWithin is Serve with bounds of the caller's.
func (c *Conn) ServeWithin(ctx context.Context, subject string, b Bounds, f func(subject string, body []byte, reply Reply)) error {
	sub, err := c.nc.QueueSubscribeSync(subject, serveGroup)
	if err != nil {
		return fmt.Errorf("serve %s: %w", subject, err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the connection is gone
	if b.Serving != nil {
		b.Serving()
	}
	var answers sync.WaitGroup
	defer answers.Wait()
	slots := make(chan struct{}, b.AtOnce)
	busy := turns{each: b.Each}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrSlowConsumer):
			continue // requests were dropped; their senders ask again
		case err != nil:
			return fmt.Errorf("serve %s: %w", subject, err)
		}
		reply, source := c.replyTo(m), m.Subject
		if b.Source != nil {
			source = b.Source(m.Subject)
		}
		if !busy.take(source) {
			if b.Refuse != nil {
				b.Refuse(m.Subject, reply)
			}
			continue
		}
		slots <- struct{}{}
		answers.Go(func() {
			defer func() {
				busy.done(source)
				<-slots
			}()
			f(m.Subject, m.Data, reply)
		})
	}
}

// replyTo sends to whoever sent m.
func (c *Conn) replyTo(m *nats.Msg) Reply {
	return func(header map[string][]string, body []byte) error {
		if m.Reply == "" {
			return errNoReply
		}
		return c.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: header, Data: body})
	}
}

// turns count the requests of each source that are being answered.
type turns struct {
	each int
	mu   sync.Mutex
	of   map[string]int
}

func (t *turns) take(source string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[source] == t.each {
		return false
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[source]++
	return true
}

func (t *turns) done(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[source]--; t.of[source] == 0 {
		delete(t.of, source)
	}
}

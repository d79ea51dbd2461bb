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

var errNoReply = errors.New("the request has no reply subject")

// Serve answers requests on subject (wildcards allowed) with f until ctx ends,
// then waits for the answers under way and returns nil. Calls of f run at the
// same time, a few of one subject; what comes for it beyond these has no answer.
// Each may reply any number of times, in order. Of all processes that serve a
// subject one gets each request. Core NATS: a request made while nobody serves
// is not kept.
func (c *Conn) Serve(ctx context.Context, subject string, f func(subject string, body []byte, reply func(header map[string][]string, body []byte) error)) error {
	sub, err := c.nc.QueueSubscribeSync(subject, serveGroup)
	if err != nil {
		return fmt.Errorf("serve %s: %w", subject, err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the connection is gone
	var answers sync.WaitGroup
	defer answers.Wait()
	slots := make(chan struct{}, serveAtOnce)
	var busy turns
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
		if !busy.take(m.Subject) {
			continue
		}
		slots <- struct{}{}
		answers.Go(func() {
			defer func() {
				busy.done(m.Subject)
				<-slots
			}()
			f(m.Subject, m.Data, func(header map[string][]string, body []byte) error {
				if m.Reply == "" {
					return errNoReply
				}
				return c.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: header, Data: body})
			})
		})
	}
}

// turns count the requests of each subject that are being answered.
type turns struct {
	mu sync.Mutex
	of map[string]int
}

func (t *turns) take(subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[subject] == serveEach {
		return false
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[subject]++
	return true
}

func (t *turns) done(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[subject]--; t.of[subject] == 0 {
		delete(t.of, subject)
	}
}

package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/backoff"
)

// Hear calls f, one message after the other, with what is published on subject
// (wildcards allowed) until stop is called. It holds what f has no time for yet,
// however much that is. Core NATS: what is published while the connection is lost
// is not heard.
func (c *Conn) Hear(subject string, f func(m Message)) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		f(Message{Subject: m.Subject, Body: m.Data, Header: m.Header})
	})
	if err != nil {
		return nil, fmt.Errorf("hear %s: %w", subject, err)
	}
	_ = sub.SetPendingLimits(-1, -1) // fails only when the subscription is gone
	return func() { _ = sub.Unsubscribe() }, nil
}

// Settle returns once the server has taken everything that was sent to it
// before: what is published from then on is heard. While the connection is lost
// it waits for the next.
func (c *Conn) Settle(ctx context.Context) error {
	again := backoff.Steady(20 * time.Millisecond)
	for {
		if _, err := c.link.await(ctx); err != nil {
			return err
		}
		flushing, cancel := c.during(ctx, requestTimeout)
		err := c.nc.FlushWithContext(flushing)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		_ = again.Pause(ctx) // the connection was lost, and link may not know it yet
	}
}

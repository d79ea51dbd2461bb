package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Tell publishes a plain message: it is not acknowledged, and stored only where
// somebody made a stream over its subject. It may wait while the server does not
// keep up. header is read before it returns.
func (c *Conn) Tell(subject string, header map[string][]string, body []byte) error {
	err := c.nc.PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: body})
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %s is larger than max_payload, %d bytes", ErrMessageTooLarge, subject, c.MaxPayload())
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%w: not connected", ErrBusy)
	}
	return err
}

// TellStream is Tell, and waits until a stream has stored the message, and so all
// that was published before it: ErrNoAnswer where that takes long, or where only others
// are subscribed to it, ErrBusy where nobody is.
func (c *Conn) TellStream(ctx context.Context, subject string, header map[string][]string, body []byte) error {
	_, err := c.ask(ctx, &nats.Msg{Subject: subject, Header: header, Data: body}, requestTimeout)
	return err
}

// Flush returns when the server has everything that was published before. An error
// means that it may not have all of it: the connection was lost meanwhile.
func (c *Conn) Flush(ctx context.Context, lost uint64) error {
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: flush: %w", ErrUnknown, err)
	}
	if c.Reconnects() != lost {
		return fmt.Errorf("%w: the connection was lost", ErrUnknown)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/streams"
)

// floorStream is the plain stream that floors publish to. Its subjects are the
// product's under another first token of the same length.
const floorStream = "FLOOR"

// onFloor runs f on a fresh plain stream of the server and removes it.
func onFloor(ctx context.Context, server *streams.Server, noAck bool, f func(*nats.Conn, jetstream.JetStream, jetstream.Stream) error) error {
	nc, err := nats.Connect("", nats.InProcessServer(server), nats.Name("floor"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return err
	}
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: floorStream, Subjects: []string{"floor.>"}, Storage: jetstream.FileStorage, NoAck: noAck,
	})
	if err != nil {
		return err
	}
	return errors.Join(f(nc, js, s), js.DeleteStream(ctx, floorStream))
}

// message points m at a captured message.
func (c *capture) message(m *nats.Msg, k kept) {
	m.Subject, m.Header, m.Data = "floor"+k.subject[len("edict"):], k.header, c.body(k)
}

// floorNoAck publishes to a stream that acknowledges nothing, as fast as the
// client can, and waits until all of it is stored. Such a stream drops what it
// cannot take in silence, so the count is what makes the figure one.
func floorNoAck(ctx context.Context, server *streams.Server, c *capture) (rate float64, err error) {
	err = onFloor(ctx, server, true, func(nc *nats.Conn, _ jetstream.JetStream, s jetstream.Stream) error {
		began := time.Now()
		var m nats.Msg
		for _, k := range c.msgs {
			c.message(&m, k)
			if err := nc.PublishMsg(&m); err != nil {
				return err
			}
		}
		if err := nc.FlushWithContext(ctx); err != nil {
			return err
		}
		if err := stored(ctx, s, len(c.msgs)); err != nil {
			return err
		}
		rate = float64(len(c.msgs)) / time.Since(began).Seconds()
		return nil
	})
	return rate, err
}

// stored waits until the stream holds n messages; one that stands still below
// that has dropped some.
func stored(ctx context.Context, s jetstream.Stream, n int) error {
	const (
		pause   = 2 * time.Millisecond
		patient = 5 * time.Second
	)
	last, since := uint64(0), time.Now()
	for {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		switch have := info.State.Msgs; {
		case have == uint64(n):
			return nil
		case have > uint64(n):
			return fmt.Errorf("the stream holds %d messages of %d published", have, n)
		case have > last:
			last, since = have, time.Now()
		case time.Since(since) > patient:
			return fmt.Errorf("the stream stored %d of %d messages and dropped the others", have, n)
		}
		time.Sleep(pause)
	}
}

// floorAsync publishes with acknowledgements, thousands in flight.
func floorAsync(ctx context.Context, server *streams.Server, c *capture) (rate float64, err error) {
	msgs := c.msgs[:min(strictFloor, len(c.msgs))]
	err = onFloor(ctx, server, false, func(_ *nats.Conn, js jetstream.JetStream, s jetstream.Stream) error {
		began := time.Now()
		for _, k := range msgs {
			m := new(nats.Msg) // kept until it is acknowledged
			c.message(m, k)
			// The client gives up after 200 ms of a full window by itself.
			if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(30*time.Second)); err != nil {
				return err
			}
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-ctx.Done():
			return ctx.Err()
		}
		rate = float64(len(msgs)) / time.Since(began).Seconds()
		return stored(ctx, s, len(msgs))
	})
	return rate, err
}

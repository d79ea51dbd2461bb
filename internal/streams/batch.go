package streams

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Outgoing is one message of an atomic batch.
type Outgoing struct {
	Subject string
	Header  []string // alternating name, value
	Body    []byte
	// Expect, when HasExpect is set, is the required last sequence of Subject (0: none).
	Expect    uint64
	HasExpect bool
	TTL       time.Duration // 0: none; the server counts whole seconds, so it is rounded up
	MsgID     string
	event     policy.Event // of the log; nil in other streams
}

// size is what the message weighs on the wire, at most.
func (o *Outgoing) size(batchID string) int {
	n := len(o.Subject) + len(o.Body) + len(o.MsgID) + len(batchID) + 200
	for _, h := range o.Header {
		n += len(h) + 4
	}
	return n
}

// batcher publishes atomic batches by the wire protocol of ADR-50: every
// message carries the batch's id and its place, the first is answered when the
// server has opened the batch, the last asks for the commit. Batch ids are
// short because they are stored with every message.
type batcher struct {
	c      *Conn
	prefix string
	n      atomic.Uint64
}

func newBatcher(c *Conn) *batcher {
	var random [5]byte
	rand.Read(random[:]) // never fails
	return &batcher{c: c, prefix: base32.HexEncoding.EncodeToString(random[:])}
}

// publish stores msgs whole or not at all and returns the first one's
// sequence; the others follow it without a gap.
func (b *batcher) publish(ctx context.Context, msgs []Outgoing) (first uint64, err error) {
	if len(msgs) == 0 {
		return 0, errors.New("publish batch: no messages")
	}
	if len(msgs) > b.c.maxBatch {
		return 0, fmt.Errorf("publish batch: %w: %d messages, the server takes %d", ErrTooLarge, len(msgs), b.c.maxBatch)
	}
	id := b.prefix + strconv.FormatUint(b.n.Add(1), 36)
	for i := range msgs {
		// Found half way it would leave the batch open at the server.
		if n := msgs[i].size(id); n > b.c.MaxPayload() {
			return 0, fmt.Errorf("publish batch: %w: %s has about %d bytes, max_payload is %d", ErrMessageTooLarge, msgs[i].Subject, n, b.c.MaxPayload())
		}
	}
	if len(msgs) == 1 {
		return b.publishOne(ctx, &msgs[0])
	}
	a, err := b.send(ctx, id, msgs)
	if err != nil {
		return 0, fmt.Errorf("publish batch of %d: %w", len(msgs), err)
	}
	if a.Batch != id || a.Count != uint64(len(msgs)) || a.Seq < a.Count {
		return 0, fmt.Errorf("publish batch of %d: %w: the server acknowledged batch %q of %d", len(msgs), ErrUnknown, a.Batch, a.Count)
	}
	return a.Seq - a.Count + 1, nil
}

// publishOne needs no batch to be atomic, and a batch would cost the server
// another fsync. Only a known id is answered differently.
func (b *batcher) publishOne(ctx context.Context, o *Outgoing) (uint64, error) {
	e := newEncoder("")
	a, err := b.c.store(ctx, e.encode(o, 0), requestTimeout)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	if a.Duplicate {
		return 0, fmt.Errorf("publish: %w: %s is stored at %d", ErrDuplicate, o.MsgID, a.Seq)
	}
	return a.Seq, nil
}

func (b *batcher) send(ctx context.Context, id string, msgs []Outgoing) (ack, error) {
	e := newEncoder(id)
	// What came before the loss of a connection must not be committed with what
	// is sent after it.
	down := b.c.link.down()
	if _, err := b.c.store(ctx, e.encode(&msgs[0], 1), requestTimeout); err != nil {
		return ack{}, err
	}
	last := len(msgs) - 1
	for i := 1; i < last; i++ {
		if err := b.c.nc.PublishMsg(e.encode(&msgs[i], i+1)); err != nil {
			return ack{}, fmt.Errorf("%w: message %d of the batch: %w", ErrUnknown, i+1, err)
		}
	}
	if down.Err() != nil {
		return ack{}, fmt.Errorf("%w: connection lost before the commit", ErrUnknown)
	}
	commit := e.encode(&msgs[last], len(msgs))
	commit.Header[headerBatchCommit] = []string{"1"}
	a, err := b.c.store(ctx, commit, commitTimeout)
	if err == nil && a.Seq == 0 {
		err = fmt.Errorf("%w: the commit was answered without a sequence", ErrUnknown)
	}
	return a, err
}

// store sends one message to be stored and reads its acknowledgement.
func (c *Conn) store(ctx context.Context, m *nats.Msg, wait time.Duration) (ack, error) {
	resp, err := c.ask(ctx, m, wait)
	unanswered := errors.Is(err, ErrNoAnswer)
	if (err == nil || unanswered) && strings.HasPrefix(m.Subject, wire.PrefixLog) {
		c.silent.Store(unanswered)
	}
	if unanswered {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err != nil {
		return ack{}, err
	}
	a, err := parseAck(resp)
	if errors.Is(err, ErrStorage) {
		c.refused.Store(true)
	}
	return a, err
}

// encoder builds one message after another in the same memory: the client has
// copied a message to its buffer when it returns. A batch of 10,000 would make
// 10,000 maps otherwise.
type encoder struct {
	batchID string
	msg     nats.Msg
	values  []string // backs the one-element values of the header
}

func newEncoder(batchID string) *encoder {
	return &encoder{batchID: batchID, msg: nats.Msg{Header: make(nats.Header, 12)}}
}

func (e *encoder) set(name, value string) {
	e.values = append(e.values, value)
	n := len(e.values)
	e.msg.Header[name] = e.values[n-1 : n : n]
}

// encode returns o as the seq-th message of the batch, valid until the next
// call; seq 0 is a message of no batch.
func (e *encoder) encode(o *Outgoing, seq int) *nats.Msg {
	clear(e.msg.Header)
	e.values = e.values[:0]
	e.msg.Subject, e.msg.Data, e.msg.Reply = o.Subject, o.Body, ""
	for i := 0; i+1 < len(o.Header); i += 2 {
		e.set(o.Header[i], o.Header[i+1])
	}
	if o.MsgID != "" {
		e.set(wire.HeaderMsgID, o.MsgID)
	}
	if o.HasExpect {
		e.set(headerExpectLast, strconv.FormatUint(o.Expect, 10))
	}
	if o.TTL > 0 {
		e.set(headerTTL, strconv.FormatFloat(math.Ceil(o.TTL.Seconds()), 'f', 0, 64)+"s")
	}
	if seq > 0 {
		e.set(headerBatchID, e.batchID)
		e.set(headerBatchSeq, strconv.Itoa(seq))
	}
	return &e.msg
}

package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
)

// Last returns the last message of every subject that matches filters
// (wildcards allowed) and has sequence >= from, ascending, and upTo, a sequence
// of the stream: the answer is what holds at upTo, complete. Any replica
// answers, so upTo may lie below the stream's end as its leader knows it; ask
// again when it is too low.
//
// At least one message must match filters, whatever its sequence: include a
// subject that always exists, such as the fence, or an empty answer is
// ErrNotFound, because the server gives no upTo with it. ErrTooMany when more
// than 1,023 subjects match.
func (n *Nodes) Last(ctx context.Context, from uint64, filters ...string) (msgs []Message, upTo uint64, err error) {
	if len(filters) == 0 {
		return nil, 0, errors.New("last messages: no filters given")
	}
	page := lastPage{next: max(from, 1)}
	var b backoff
	for {
		p, err := n.lastPage(ctx, page.next, filters)
		if err == nil && p.upTo < upTo {
			// Another replica, behind the one that answered before.
			err = fmt.Errorf("%w: replica behind", ErrBusy)
		}
		if errors.Is(err, ErrBusy) && b.pause(ctx) == nil {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("last messages from %d: %w", from, err)
		}
		msgs, upTo = merge(msgs, p.msgs), p.upTo
		if !p.more {
			break
		}
		page = p
	}
	// Asked without a lower bound, the answer holds more than was wanted.
	return slices.DeleteFunc(msgs, func(m Message) bool { return m.Seq < from }), upTo, nil
}

// merge appends a page that was read later. A subject on both has moved since
// the first was read; with its older message gone the whole is what holds at
// the later page's upTo.
func merge(msgs, page []Message) []Message {
	if len(msgs) == 0 {
		return page
	}
	moved := make(map[string]bool, len(page))
	for i := range page {
		moved[page[i].Subject] = true
	}
	msgs = slices.DeleteFunc(msgs, func(m Message) bool { return moved[m.Subject] })
	return append(msgs, page...)
}

// lastPage is one answer. The server cuts it at a number of bytes: more says
// that it did, next where to go on.
type lastPage struct {
	msgs []Message
	upTo uint64
	more bool
	next uint64
}

// Statuses of a direct get.
const (
	statusEnd      = "204"
	statusNone     = "404"
	statusTooMany  = "413"
	descNoMessages = "No Results"
)

// lastPage asks once. A server may answer 404 without an upTo when nothing lies
// at or above from; asked without from it has something to answer, read
// together with its upTo.
func (n *Nodes) lastPage(ctx context.Context, from uint64, filters []string) (lastPage, error) {
	p, err := n.multiLast(ctx, from, filters)
	if errors.Is(err, ErrNotFound) && from > 1 {
		p, err = n.multiLast(ctx, 0, filters)
	}
	return p, err
}

func (n *Nodes) multiLast(ctx context.Context, from uint64, filters []string) (lastPage, error) {
	down := n.c.link.down()
	ctx, cancel := n.c.during(ctx, requestTimeout)
	defer cancel()
	req := n.c.directRequest(NodesStream, directGet{Seq: from, MultiLast: filters, MaxBytes: n.maxBytes})
	req.Reply = n.c.nc.NewInbox()
	sub, err := n.c.nc.SubscribeSync(req.Reply)
	if err != nil {
		return lastPage{}, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the connection is gone
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return lastPage{}, err
	}
	if err := n.c.nc.PublishMsg(req); errors.Is(err, nats.ErrReconnectBufExceeded) {
		return lastPage{}, fmt.Errorf("%w: not connected", ErrBusy)
	} else if err != nil {
		return lastPage{}, err
	}
	var p lastPage
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return lastPage{}, fmt.Errorf("%w: nothing serves %s", ErrBusy, req.Subject)
		case err != nil && down.Err() != nil:
			return lastPage{}, fmt.Errorf("%w: connection lost", ErrBusy)
		case err != nil:
			return lastPage{}, fmt.Errorf("no answer: %w", err)
		}
		if m.Header.Get(statusHeader) != "" {
			return p.end(m)
		}
		msg, err := directMessage(m)
		if err != nil {
			return lastPage{}, err
		}
		p.msgs = append(p.msgs, msg)
	}
}

// end reads the status message that closes an answer.
func (p lastPage) end(m *nats.Msg) (lastPage, error) {
	status, text := m.Header.Get(statusHeader), m.Header.Get(statusText)
	switch {
	case status == statusEnd:
	case status == statusTooMany:
		return lastPage{}, fmt.Errorf("%w: server: %s", ErrTooMany, text)
	case status == statusNone && text == descNoMessages:
		return lastPage{}, fmt.Errorf("%w: no message matches", ErrNotFound)
	case status == statusNone:
		// A message that was found could not be loaded: it went in between.
		return lastPage{}, fmt.Errorf("%w: server: %s", ErrBusy, text)
	default:
		return lastPage{}, fmt.Errorf("server: %s %s", status, text)
	}
	pending, err1 := strconv.ParseUint(m.Header.Get(directPending), 10, 64)
	upTo, err2 := strconv.ParseUint(m.Header.Get(directUpTo), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return lastPage{}, fmt.Errorf("the end of the answer cannot be read: %w", err)
	}
	p.upTo = upTo
	p.more = pending > 0
	if p.more {
		if len(p.msgs) == 0 {
			return lastPage{}, errors.New("the answer was cut before its first message")
		}
		p.next = p.msgs[len(p.msgs)-1].Seq + 1
	}
	return p, nil
}

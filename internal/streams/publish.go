package streams

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const (
	// groupBytes bounds a batch of the log.
	groupBytes = 8 << 20
	// publishTimeout bounds a write whose context has no deadline.
	publishTimeout = 30 * time.Second
)

// outgoing is the message an event is published as: its JSON, and what it is in
// the binary mode of the CloudEvents binding for NATS.
func outgoing(a Append) Outgoing {
	e := a.Event
	id := e.EventID().String()
	o := Outgoing{
		Subject: wire.Subject(e),
		Body:    policy.Append(nil, e),
		Header: []string{
			wire.HeaderCEID, id,
			wire.HeaderCEType, e.EventType(),
			wire.HeaderCESource, source(e),
			wire.HeaderCESpecVersion, wire.CESpecVersion,
			wire.HeaderCETime, happened(e).Format(time.RFC3339Nano),
			wire.HeaderDataSchema, wire.DataSchema(e),
		},
	}
	if a.Traceparent != "" {
		o.Header = append(o.Header, wire.HeaderTraceparent, a.Traceparent)
	}
	if a.Principal != "" {
		o.Header = append(o.Header, wire.HeaderPrincipal, a.Principal)
	}
	if a.Correlation != "" {
		o.Header = append(o.Header, wire.HeaderCorrelation, a.Correlation)
	}
	if a.Request != "" {
		o.Header = append(o.Header, wire.HeaderRequest, a.Request)
	}
	switch {
	case a.Again:
		o.MsgID = unforeseen(id)
	case !a.Bulk:
		o.MsgID = id
	}
	o.HasExpect, o.Expect, o.event = a.Once || a.After > 0, a.After, e
	return o
}

// Stored is about what the log takes for it, as [Message.Stored] has it.
func (a Append) Stored() int {
	o := outgoing(a)
	n := recordSize + headersSize + len(o.Subject) + len(o.Body)
	for i := 0; i < len(o.Header); i += 2 {
		n += headerSize(o.Header[i], o.Header[i+1])
	}
	return n
}

// unforeseen is a message id of an event that nobody has used.
func unforeseen(id string) string { return id + "." + rand.Text() }

// source is who produced an event of ours, as a URI reference.
func source(e policy.Event) string {
	if e.Scope() == uuid.Nil {
		return "edict"
	}
	return "edict/" + e.Scope().String()
}

// happened is when the event's author made it. Nothing is derived from it: the
// log's own timestamps decide.
func happened(e policy.Event) time.Time {
	if k := policy.KindOf(e); k.Made != nil && !k.Made(e).IsZero() {
		return k.Made(e).UTC()
	}
	return time.Now().UTC()
}

// result is what became of one event.
type result struct {
	seq       uint64
	duplicate bool
	err       error
}

// writer is a Publish that waits for its turn. Its channel gets one signal.
type writer struct {
	out  Outgoing
	turn chan turn
}

// turn tells a waiting writer what to do: publish alone, lead the group, or
// take the result a leader got for it.
type turn struct {
	alone bool
	group []*writer // of which it is the first
	done  result
}

// Publish appends one event and returns its sequence once it is stored.
// duplicate is true when the log has this very event already: seq is then the
// first one's (also when that was an earlier attempt of this very call). An
// event of somebody else that has its id does not count for it. Safe for
// many goroutines: up to 32 publish singly, of one project up to 2 while others
// write, and what waits beyond them is cut into atomic batches, which one of the
// waiting publishes for the others.
//
// A lost acknowledgement is asked for again under the same id until ctx ends
// (30 s without a deadline), then the error is ErrUnknown: the event may be
// stored, and the same event may be published again. With Bulk there is no id,
// so it is ErrUnknown at once.
func (l *Log) Publish(ctx context.Context, a Append) (seq uint64, duplicate bool, err error) {
	o := l.outgoing(a)
	if n := o.size(""); n > l.c.MaxPayload() {
		return 0, false, fmt.Errorf("publish %s: %w: about %d bytes, max_payload is %d", o.Subject, ErrMessageTooLarge, n, l.c.MaxPayload())
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishTimeout)
		defer cancel()
	}
	publish := l.take
	if o.HasExpect { // a batch would fail with it
		publish = func(ctx context.Context, o Outgoing) result { return l.single(ctx, &o) }
	}
	r := publish(ctx, o)
	if r.err != nil {
		return 0, false, fmt.Errorf("publish %s: %w", o.Subject, r.err)
	}
	return r.seq, r.duplicate, nil
}

func (l *Log) take(ctx context.Context, o Outgoing) result {
	project, now := o.event.Scope(), time.Now()
	l.mu.Lock()
	l.c.writing.asks(project, now)
	if !l.grouped && l.share.has(project, l.c.writing.several(now)) {
		l.share.take(project)
		l.mu.Unlock()
		return l.alone(ctx, o)
	}
	w := &writer{out: o, turn: make(chan turn, 1)}
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	select {
	case t := <-w.turn:
		return l.obey(ctx, w, t)
	case <-ctx.Done():
	}
	l.mu.Lock()
	if i := slices.Index(l.queue, w); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		l.mu.Unlock()
		return result{err: ctx.Err()} // never sent
	}
	l.mu.Unlock()
	// Its turn had come in the meantime. A group it leads goes out all the same:
	// the others count on it.
	return l.obey(ctx, w, <-w.turn)
}

func (l *Log) obey(ctx context.Context, w *writer, t turn) result {
	switch {
	case t.alone:
		return l.alone(ctx, w.out)
	case t.group != nil:
		return l.lead(t.group)
	default:
		return t.done
	}
}

func (l *Log) alone(ctx context.Context, o Outgoing) result {
	r := l.single(ctx, &o)
	l.mu.Lock()
	l.share.give(o.event.Scope())
	l.dispatch()
	l.mu.Unlock()
	return r
}

// lead publishes the group's events as one batch and hands out the results. Its
// time is its own: the caller that leads may be called off.
func (l *Log) lead(group []*writer) result {
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	outs := make([]Outgoing, len(group))
	for i, w := range group {
		outs[i] = w.out
	}
	results := l.together(ctx, outs, false)
	l.mu.Lock()
	l.grouped = false
	l.dispatch()
	l.mu.Unlock()
	for i, w := range group[1:] {
		w.turn <- turn{done: results[i+1]}
	}
	return results[0]
}

// dispatch gives turns to those who wait: a group when more than groupAbove do,
// else singles, each project its share. The caller holds l.mu.
func (l *Log) dispatch() {
	if l.grouped || len(l.queue) == 0 {
		return
	}
	if len(l.queue) > groupAbove {
		n, bytes := 0, 0
		for n < len(l.queue) && n < l.c.maxBatch {
			bytes += l.queue[n].out.size("")
			if n > 0 && bytes > groupBytes {
				break
			}
			n++
		}
		group := slices.Clone(l.queue[:n])
		l.queue = slices.Delete(l.queue, 0, n)
		l.grouped = true
		group[0].turn <- turn{group: group}
		return
	}
	several, stay := l.c.writing.several(time.Now()), l.queue[:0]
	for _, w := range l.queue {
		project := w.out.event.Scope()
		if !l.share.has(project, several) {
			stay = append(stay, w)
			continue
		}
		l.share.take(project)
		w.turn <- turn{alone: true}
	}
	clear(l.queue[len(stay):])
	l.queue = stay
}

// single stores one event. What may be repeated safely is repeated until ctx
// ends. Message ids are one namespace for all who append: where another event
// has ours, this one is sent under an id that nobody can foresee.
func (l *Log) single(ctx context.Context, o *Outgoing) result {
	var b backoff.Backoff
	var unknown error
	removed, looked := l.before(o.Expect), false
	for {
		a, err := l.c.store(ctx, newEncoder("").encode(o.expecting(removed), 0), requestTimeout)
		if err == nil && a.Duplicate {
			var ours bool
			if ours, err = l.stored(ctx, a.Seq, o); err == nil && !ours {
				o.MsgID = unforeseen(o.event.EventID().String())
				continue
			}
		}
		if o.Expect > 0 && errors.Is(err, ErrWrongSequence) {
			if !looked && !inFlight(err) && l.otherwise(ctx, o.Expect, removed) {
				removed, looked = !removed, true
				continue
			}
			if a.Seq, err = l.behind(ctx, o, err); err == nil {
				return result{seq: a.Seq, duplicate: true}
			}
		}
		switch {
		case err == nil:
			return result{seq: a.Seq, duplicate: a.Duplicate}
		case errors.Is(err, ErrUnknown) && o.MsgID == "":
			return result{err: err}
		case errors.Is(err, ErrUnknown):
			unknown = err
		case !errors.Is(err, ErrBusy):
			return result{err: err}
		}
		if b.Pause(ctx) != nil {
			if unknown != nil {
				err = unknown
			}
			return result{err: err}
		}
	}
}

// behind finds o behind the event that it expected to be the last on its subject: the
// server looks at that before it looks at message ids, so an earlier attempt, whose
// acknowledgement was lost, is refused like anybody else's event.
func (l *Log) behind(ctx context.Context, o *Outgoing, refused error) (seq uint64, err error) {
	if inFlight(refused) {
		return 0, fmt.Errorf("%w: %w", ErrBusy, refused) // perhaps by that attempt
	}
	m, err := l.NextOf(ctx, o.event, o.Expect+1)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, refused
	case err != nil:
		return 0, fmt.Errorf("%w: what stands behind %d: %w", ErrUnknown, o.Expect, err)
	}
	return m.Seq, nil
}

// stored reports whether the event at seq is o's: of the same id and type, on
// the same subject. Its body may differ: an author's second attempt states
// another time. ErrUnknown means that the log did not say.
func (l *Log) stored(ctx context.Context, seq uint64, o *Outgoing) (bool, error) {
	if fault.Always(fault.TakenID) {
		return true, nil
	}
	m, err := l.Get(ctx, seq)
	if errors.As(err, new(*CompactedError)) {
		return false, nil // nobody can tell: the fold knows the ids that were used
	}
	if err != nil {
		return false, fmt.Errorf("%w: what stands at %d under its id: %w", ErrUnknown, seq, err)
	}
	if m.Subject != o.Subject {
		return false, nil
	}
	e, _ := policy.Decode(m.Body) // what is wrong with the rest of it is the fold's to say
	return e != nil && e.EventID() == o.event.EventID() && e.EventType() == o.event.EventType(), nil
}

// together stores events as one batch; a batch that cannot be is cut up or goes
// one by one. With inOrder nothing is stored after one that failed.
func (l *Log) together(ctx context.Context, outs []Outgoing, inOrder bool) []result {
	results := make([]result, len(outs))
	var b backoff.Backoff
	for len(outs) > 1 {
		first, err := l.batch.publish(ctx, outs)
		switch {
		case err == nil:
			for i := range results {
				results[i] = result{seq: first + uint64(i)} //nolint:gosec // an index
			}
			return results
		case errors.Is(err, ErrTooLarge):
			return l.halves(ctx, outs, inOrder)
		case errors.Is(err, ErrDuplicate), errors.Is(err, ErrMessageTooLarge):
			// One by one, each is distinguished: stored before, only now, or not.
			return l.oneByOne(ctx, outs, inOrder)
		case retriable(err, outs) && b.Pause(ctx) == nil:
			continue
		}
		for i := range results {
			results[i] = result{err: err}
		}
		return results
	}
	return l.oneByOne(ctx, outs, inOrder)
}

func (l *Log) halves(ctx context.Context, outs []Outgoing, inOrder bool) []result {
	half := len(outs) / 2
	results := l.together(ctx, outs[:half], inOrder)
	if err := results[half-1].err; inOrder && err != nil {
		return append(results, slices.Repeat([]result{{err: err}}, len(outs)-half)...)
	}
	return append(results, l.together(ctx, outs[half:], inOrder)...)
}

// retriable reports whether the whole batch may be sent again. When it may have
// been stored, only message ids keep it from being stored twice.
func retriable(err error, outs []Outgoing) bool {
	if errors.Is(err, ErrUnknown) {
		return !slices.ContainsFunc(outs, func(o Outgoing) bool { return o.MsgID == "" })
	}
	return errors.Is(err, ErrBusy)
}

// oneByOne stores events singly. With inOrder nothing follows one that failed.
func (l *Log) oneByOne(ctx context.Context, outs []Outgoing, inOrder bool) []result {
	results := make([]result, len(outs))
	for i := range outs {
		if inOrder && i > 0 && results[i-1].err != nil {
			results[i].err = results[i-1].err
			continue
		}
		results[i] = l.single(ctx, &outs[i])
	}
	return results
}

// PublishAll appends events in order, in atomic batches as large as the server
// takes, and returns the sequence of each. A known id (not with Bulk) gives the
// sequence it was stored at. On an error seqs holds those stored before it; the
// batch that failed is stored whole or not at all, which ErrUnknown leaves
// open.
func (l *Log) PublishAll(ctx context.Context, as []Append) (seqs []uint64, err error) {
	seqs = make([]uint64, 0, len(as))
	outs := make([]Outgoing, 0, min(len(as), l.c.maxBatch))
	bytes := 0
	flush := func() error {
		for _, r := range l.together(ctx, outs, true) {
			if r.err != nil {
				return fmt.Errorf("publish events %d to %d of %d: %w", len(seqs)+1, len(seqs)+len(outs), len(as), r.err)
			}
			seqs = append(seqs, r.seq)
		}
		outs, bytes = outs[:0], 0
		return nil
	}
	for _, a := range as {
		o := l.outgoing(a)
		n := o.size("")
		if len(outs) > 0 && (len(outs) == l.c.maxBatch || bytes+n > groupBytes) {
			if err := flush(); err != nil {
				return seqs, err
			}
		}
		outs = append(outs, o)
		bytes += n
	}
	if len(outs) > 0 {
		if err := flush(); err != nil {
			return seqs, err
		}
	}
	return seqs, nil
}

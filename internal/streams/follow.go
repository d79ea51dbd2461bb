package streams

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
)

const (
	followBatch     = 1000    // messages yielded together, at most
	followTogether  = 2 << 20 // bytes yielded together, but for a message that is larger
	followBuffer    = 4096    // messages held ahead of the reader, of Conn.ahead
	followBytes     = 8 << 20 // bytes held ahead of the reader, and asked of the server at once
	followPull      = 1000    // messages asked of the server at once
	followHeartbeat = 2 * time.Second
	// A consumer whose process died is forgotten after this; the server allows a
	// thousand consumers of a stream by default.
	consumerInactive = 30 * time.Second
	// quietCheck is how long a bounded read waits for a message before it asks
	// whether one is to come.
	quietCheck = 500 * time.Millisecond
	// goneTries is how often a stream must be missing before it counts as gone:
	// a server that goes down or comes up may not know its streams.
	goneTries = 4
	// shortTries is how often a bounded read begins again that ends below its bound.
	shortTries = 4
)

// follower reads a stream in order through temporary consumers. It makes a new
// one after whatever goes wrong, beginning after the last message yielded.
type follower struct {
	c          *Conn
	stream     string
	filters    []string
	next       uint64 // the sequence wanted next
	contiguous bool   // every sequence must come
	to         uint64 // 0: without end
	verify     func(*jetstream.StreamInfo) error
	// removed says why the messages from a sequence up to next, which came in its place,
	// are not there any more; nil, or its nil: nobody was to remove them.
	removed func(seq, next uint64) error

	retry    backoff.Backoff
	gone     int
	short    int     // how often a bounded read ended below its bound, since a message came
	replicas int     // of the stream, as the last inspection found
	state    State   // of the stream, then
	inFiles  bool    // nothing was removed between the two ends of it, and it is kept in files
	last     Message // yielded last; Seq 0: none yet
}

// errRestart ends one consumer; the next takes over.
var errRestart = errors.New("consumer ended")

func (f follower) follow(ctx context.Context) iter.Seq2[[]Message, error] {
	return func(yield func([]Message, error) bool) {
		f := f // an iteration of its own each time
		for ctx.Err() == nil {
			done, err := f.once(ctx, yield)
			if done || ctx.Err() != nil {
				return
			}
			if fatal(err) {
				yield(nil, fmt.Errorf("follow %s from %d: %w", f.stream, f.next, err))
				return
			}
			f.c.log.Debug("following again", "stream", f.stream, "seq", f.next, "error", err)
			if f.retry.Pause(ctx) != nil {
				return
			}
		}
	}
}

// fatal errors do not pass by trying again.
func fatal(err error) bool {
	var damaged *DamagedError
	return errors.As(err, &damaged) || errors.As(err, new(*CompactedError)) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, jetstream.ErrMaximumConsumersLimit) || errors.Is(err, nats.ErrPermissionViolation)
}

// once reads through one consumer. done: the caller broke off, or a bounded
// read is complete.
func (f *follower) once(ctx context.Context, yield func([]Message, error) bool) (done bool, err error) {
	down, err := f.c.link.await(ctx)
	if err != nil {
		return false, err
	}
	if err := f.inspect(ctx); err != nil {
		return false, err
	}
	if done, err := f.fromBlocks(ctx, yield); done || err != nil {
		return done, err
	}
	cons, err := f.consumer(ctx)
	if err != nil {
		return false, err
	}
	defer f.forget(cons.CachedInfo().Name)
	if f.to > 0 && cons.CachedInfo().NumPending == 0 {
		return f.ended()
	}
	q := newQueue(down, cons.CachedInfo().Delivered.Consumer, f.c.ahead)
	defer q.close()
	cc, err := cons.Consume(q.put,
		jetstream.PullMaxMessagesWithBytesLimit(followPull, max(followBytes, 2*f.c.MaxPayload())),
		jetstream.PullHeartbeat(followHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { q.fail(err) }))
	if err != nil {
		return false, fmt.Errorf("consume: %w", err)
	}
	defer cc.Stop()
	return f.drain(ctx, cons, q, yield)
}

// afterwards is what follows where the stream is gone. Workers make all others again, and an old
// one that was restored would say what is not so any more.
func (f *follower) afterwards() string {
	if f.stream == LogStream {
		return "restore it from a backup"
	}
	return "somebody deleted it, and a worker makes it again"
}

// inspect asks the stream's leader whether it is still the stream to follow.
func (f *follower) inspect(ctx context.Context) error {
	info, err := f.c.streamInfo(ctx, f.stream)
	if errors.Is(err, ErrNotFound) {
		if f.gone++; f.gone < goneTries {
			return err
		}
		return &DamagedError{Damage: DamageGone, Detail: f.stream + " is gone; " + f.afterwards()}
	}
	if err != nil {
		return err
	}
	if err := f.verify(info); err != nil {
		return err
	}
	f.replicas = info.Config.Replicas
	f.inFiles = info.Config.Storage == jetstream.FileStorage && info.State.NumDeleted == 0
	f.state = stateOf(info)
	if last := f.state.Last; last+1 < f.next {
		return &DamagedError{
			Damage: DamageTruncated, From: last + 1, To: f.next - 1,
			Detail: fmt.Sprintf("%s ends at %d, but %d was seen: it lost its tail", f.stream, last, f.next-1),
		}
	}
	return f.unchanged(ctx, f.state.First)
}

// unchanged checks that the message before the next is what it was when this
// iteration began, or yielded it. A stream that lost its tail and has grown
// since looks whole otherwise. first is the stream's first sequence.
func (f *follower) unchanged(ctx context.Context, first uint64) error {
	if !f.contiguous || f.next <= 1 {
		f.gone = 0
		return nil
	}
	m, err := sure(ctx, f.c, directGet{Seq: f.next - 1}, fmt.Sprintf("%s sequence %d", f.stream, f.next-1), f.stream, f.replicas)
	switch {
	case errors.Is(err, ErrNotFound) && f.last.Seq == 0:
		f.gone = 0
		return nil // before the first there is none
	case errors.Is(err, ErrNotFound):
		if f.removed != nil && f.last.Seq < first {
			if err := f.removed(f.last.Seq, first); err != nil {
				return nil // what comes next may be there: else it is said then
			}
		}
		if f.gone++; f.gone < goneTries {
			return err // a replica may lag
		}
		return &DamagedError{
			Damage: DamageHole, From: f.last.Seq, To: f.last.Seq,
			Detail: fmt.Sprintf("%s lacks sequence %d, which was seen; restore the stream from a backup", f.stream, f.last.Seq),
		}
	case err != nil:
		return err
	case f.last.Seq == 0:
		f.last = m
	case m.Subject != f.last.Subject || !m.Time.Equal(f.last.Time) || !bytes.Equal(m.Body, f.last.Body):
		return &DamagedError{
			Damage: DamageChanged, From: m.Seq, To: m.Seq,
			Detail: fmt.Sprintf("%s has another message at %d than the one that was seen: it lost its tail and has grown since", f.stream, m.Seq),
		}
	}
	f.gone = 0
	return nil
}

func (f *follower) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := f.c.during(ctx, requestTimeout)
	defer cancel()
	cfg := jetstream.ConsumerConfig{
		Name:              f.c.consumerName(),
		Description:       fmt.Sprintf("%s follows %s from %d; it goes by itself", f.c.name, f.stream, f.next),
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       max(1, f.next),
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: consumerInactive,
		FilterSubjects:    f.filters,
	}
	cons, err := f.c.js.CreateConsumer(ctx, f.stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("make a consumer of %s: %w", f.stream, err)
	}
	return cons, nil
}

// consumerName makes a name that says whose a consumer is, and that no other
// consumer has.
func (c *Conn) consumerName() string {
	whose := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-' // the server takes no space, dot or wildcard
	}, c.name)
	return strings.TrimPrefix(whose[:min(len(whose), 64)]+"-"+rand.Text(), "-")
}

// forget deletes a consumer that has served; if that fails the server does it
// after consumerInactive.
func (f *follower) forget(name string) {
	if !f.c.nc.IsConnected() {
		return
	}
	ctx, cancel := f.c.during(context.Background(), time.Second)
	defer cancel()
	if err := f.c.js.DeleteConsumer(ctx, f.stream, name); err != nil {
		f.c.log.Debug("consumer left to expire", "stream", f.stream, "consumer", name, "error", err)
	}
}

// drain yields what the queue holds until it fails or the read is complete.
func (f *follower) drain(ctx context.Context, cons jetstream.Consumer, q *queue, yield func([]Message, error) bool) (done bool, err error) {
	for {
		batch, pending, err := q.take(ctx, f.quiet())
		if errors.Is(err, errQuiet) {
			none, err := f.nothingToCome(ctx, cons, q)
			if err != nil {
				return false, err
			}
			if none {
				return f.ended()
			}
			continue
		}
		if err != nil {
			return false, err
		}
		if done, err := f.give(batch, yield); done || err != nil {
			return done, err
		}
		if f.to > 0 && pending == 0 && q.empty() {
			return f.ended()
		}
	}
}

// give yields what is sound of a batch. done is as of once.
func (f *follower) give(batch []Message, yield func([]Message, error) bool) (done bool, err error) {
	batch, complete, err := f.accept(batch)
	if len(batch) > 0 {
		f.last = batch[len(batch)-1]
		f.next = f.last.Seq + 1
		f.retry.Reset()
		f.short = 0
		if !yield(batch, nil) {
			return true, nil
		}
	}
	return err == nil && f.to > 0 && complete, err
}

func (f *follower) quiet() time.Duration {
	if f.to > 0 {
		return quietCheck
	}
	return 0
}

// ended is what a bounded read comes to when nothing more is pending. Below its bound
// messages may be missing for good; but the replica that the consumer reads from may
// also lag behind the leader, who named the bound, so it is read again a few times.
func (f *follower) ended() (done bool, err error) {
	if f.replicas <= 1 || f.next > f.to || f.short == shortTries {
		return true, nil
	}
	f.short++
	return false, fmt.Errorf("%w: nothing is pending from %d, and %d was there", errRestart, f.next, f.to)
}

// nothingToCome: what was pending may have been replaced or have expired, so no
// message will say that it was the last.
func (f *follower) nothingToCome(ctx context.Context, cons jetstream.Consumer, q *queue) (bool, error) {
	ctx, cancel := f.c.during(ctx, requestTimeout)
	defer cancel()
	info, err := cons.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.NumPending == 0 && info.Delivered.Consumer == q.received(), nil
}

// accept checks the batch against what must come and cuts off what was not
// asked for. What is sound before a fault is returned with it.
func (f *follower) accept(batch []Message) (ok []Message, complete bool, err error) {
	want := f.next
	for i := range batch {
		seq := batch[i].Seq
		switch {
		case f.to > 0 && seq > f.to:
			return batch[:i], true, nil
		case seq < want:
			return batch[:i], false, fmt.Errorf("%w: sequence %d came after %d", errRestart, seq, want-1)
		case f.contiguous && seq > want:
			return batch[:i], false, f.lacks(want, seq)
		}
		want = seq + 1
	}
	return batch, f.to > 0 && want > f.to, nil
}

// lacks says why next came in the place of a sequence.
func (f *follower) lacks(seq, next uint64) error {
	if f.removed != nil {
		if err := f.removed(seq, next); err != nil {
			return err
		}
	}
	return &DamagedError{
		Damage: DamageHole, From: seq, To: next - 1,
		Detail: fmt.Sprintf("%s lacks sequence %d: the next is %d; restore the stream from a backup", f.stream, seq, next),
	}
}

package streams

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Names of the streams.
const (
	LogStream      = "EDICT_LOG"
	RejectedStream = "EDICT_REJECTED"
	ChainStream    = "EDICT_CHAIN"
)

// LogOptions matter when the log is made; an existing log keeps its own.
type LogOptions struct {
	Partitions int // node partitions, fixed for the log's life; 0 is 64
	// Above: the first sequence of a new log exceeds it. After a loss it is the highest version ever sent, so that no
	// node takes the new log's truth for a rollback (docs/design.md#what-we-promise).
	Above uint64
	// AboveID: every event id of a new log exceeds it.
	AboveID policy.EventID
}

// Log is stream EDICT_LOG: every event, in the one total order. Its sequences
// are the only clock of the system.
type Log struct {
	beginning
	partitions int
	base       uint64
	replicas   int
	batch      *batcher
	heads      headReader
	marker     *Marker // nil: events are not marked

	mu      sync.Mutex
	share   share     // of those in flight singly
	grouped bool      // a group is in flight
	queue   []*writer // waiting, oldest first
}

// Append is one event to publish. Its subject follows from it.
type Append struct {
	Event       policy.Event
	Traceparent string // W3C trace context of the request that caused it; "" when there is none
	Principal   string // who caused it, for the audit; "" when nobody said
	Correlation string // what its author said it belongs to
	Request     string // digest of what was asked under an Idempotency-Key; "" without one
	Once        bool   // only if nothing stands on its subject yet, else ErrWrongSequence
	After       uint64 // only if this is the last sequence on its subject, else ErrWrongSequence; 0: whatever is
	Again       bool   // though the log has it: what it met then made the fold refuse it, and is otherwise now
	Bulk        bool   // omit Nats-Msg-Id: an import repeats safely by its event ids, and ids cost the server memory
}

// OpenLog makes the stream, or checks the one that exists: *ConfigError. One
// that was made before a family of events came gets the family's subject.
func OpenLog(ctx context.Context, c *Conn, opt LogOptions) (*Log, error) {
	if opt.Partitions == 0 {
		opt.Partitions = 64
	}
	if opt.Partitions < 1 || opt.Partitions > MaxPartitions {
		return nil, fmt.Errorf("open the log: %d partitions: must be 1..%d", opt.Partitions, MaxPartitions)
	}
	cfg := c.logConfig(opt.Partitions, baseAbove(time.Now(), opt.AboveID))
	if opt.Above > 0 {
		cfg.FirstSeq = opt.Above + 1
	}
	info, _, err := c.openStream(ctx, cfg, logFaults)
	if err == nil {
		err = finished(info)
	}
	if err == nil {
		info, err = c.extend(ctx, info, laterSubjects)
	}
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return c.logOf(ctx, info)
}

// logConfig is the log's, as it is made.
func (c *Conn) logConfig(partitions int, base uint64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               LogStream,
		Description:        "Edict's log: every event since its origin",
		Subjects:           slices.Concat(logSubjects, laterSubjects),
		Storage:            jetstream.FileStorage,
		Replicas:           c.Replicas(),
		Discard:            jetstream.DiscardNew,
		Duplicates:         logDuplicates,
		DenyDelete:         true,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Metadata: map[string]string{
			metaPartitions: strconv.Itoa(partitions),
			metaBase:       strconv.FormatUint(base, 10),
		},
	}
}

// logOf is the log of a stream whose settings were checked.
func (c *Conn) logOf(ctx context.Context, info *jetstream.StreamInfo) (*Log, error) {
	l := logOn(c, info)
	if err := l.locate(ctx, stateOf(info).First); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return l, nil
}

// logOn is the log on a stream, before it is known where it begins.
func logOn(c *Conn, info *jetstream.StreamInfo) *Log {
	partitions, _ := strconv.Atoi(info.Config.Metadata[metaPartitions])
	l := &Log{
		beginning:  beginning{c: c, created: info.Created.UTC(), first: max(1, info.Config.FirstSeq)},
		partitions: partitions,
		base:       baseOf(info),
		replicas:   info.Config.Replicas,
		batch:      newBatcher(c),
	}
	l.heads.read = l.readHead
	return l
}

// Partitions is the number of node partitions, fixed when the log was made.
func (l *Log) Partitions() int { return l.partitions }

// State is the log's extent, from the stream's leader.
func (l *Log) State(ctx context.Context) (State, error) {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err != nil {
		return State{}, err
	}
	return stateOf(info), nil
}

// Follow yields batches of messages from sequence from (inclusive; below First
// is First), oldest first, every sequence once, until ctx ends. It outlives
// restarts of the server and begins again after the last message yielded. It
// yields what there is at once and at most 1,000 messages, or 2 MiB of several, together. The
// iteration ends with an error when it cannot go on: *DamagedError for a hole
// in the sequences, a log of another birth, or one that ends before from - 1;
// *CompactedError when it stands before the log's origin.
func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[[]Message, error] {
	f := follower{
		c:          l.c,
		stream:     LogStream,
		next:       max(from, l.first),
		contiguous: true,
		verify:     l.same,
		removed:    l.removed,
	}
	return f.follow(ctx)
}

// Get returns one stored event; ErrNotFound when there is none, *CompactedError when it
// was removed.
func (l *Log) Get(ctx context.Context, seq uint64) (Message, error) {
	m, err := l.c.getSeq(ctx, LogStream, seq)
	if !errors.Is(err, ErrNotFound) {
		return m, err
	}
	if rerr := l.Removed(ctx, seq); errors.As(rerr, new(*CompactedError)) {
		return m, rerr
	}
	if l.replicas == 1 {
		return m, err
	}
	// Any replica answers, and one that lags does not know what the leader counts.
	s, serr := l.State(ctx)
	if serr != nil {
		return m, fmt.Errorf("whether %s has sequence %d: %w", LogStream, seq, serr)
	}
	if seq < s.First || seq > s.Last {
		return m, err
	}
	for range 10 {
		if m, err = sure(ctx, l.c, directGet{Seq: seq}, fmt.Sprintf("%s sequence %d", LogStream, seq), LogStream, l.replicas); !errors.Is(err, ErrNotFound) {
			return m, err
		}
		if err := backoff.Sleep(ctx, 50*time.Millisecond); err != nil {
			return Message{}, err
		}
	}
	return m, err
}

// Reaches is up to where the log can be read that is said to end at a sequence. Where that is below,
// the error says so, a *DamagedError: a server counts an event whose record is cut off, and whoever
// follows the log up to there would wait for it for ever.
func (l *Log) Reaches(ctx context.Context, last uint64) (seq uint64, err error) {
	const most = 10_000 // of these the first is named: nobody waits for a million questions
	for seq = last; seq >= l.first && last-seq < most; seq-- {
		_, err = l.Get(ctx, seq)
		if !errors.Is(err, ErrNotFound) {
			break
		}
	}
	if seq == last || err != nil && !errors.Is(err, ErrNotFound) {
		return seq, err
	}
	from := seq + 1
	if err != nil && seq >= l.first { // what lies below was not asked for
		seq = l.first - 1
	}
	return seq, &DamagedError{
		Damage: DamageHole, From: from, To: last,
		Detail: fmt.Sprintf("%s lacks sequence %d, and its server counts up to %d; restore the stream from a backup", LogStream, from, last),
	}
}

// NextOf returns the first event from a sequence on that has the id of e, on the
// subject of e; ErrNotFound when there is none. It reads what stands on the subject,
// one by one.
func (l *Log) NextOf(ctx context.Context, e policy.Event, from uint64) (Message, error) {
	subject := wire.Subject(e)
	for {
		m, err := sure(ctx, l.c, directGet{Seq: from, NextFor: subject}, "the events on "+subject, LogStream, l.replicas)
		if err != nil {
			return m, err
		}
		if was, _ := policy.Decode(m.Body); was != nil && was.EventID() == e.EventID() {
			return m, nil
		}
		from = m.Seq + 1
	}
}

// Holds reports whether an event stands on the subject of e; one that was removed does not
// (Origin). Where the log has
// replicas one that lags may say no.
func (l *Log) Holds(ctx context.Context, e policy.Event) (bool, error) {
	seq, err := l.lastOf(ctx, e)
	return seq > 0, err
}

// LastOf is the sequence of the last event on the subject of e; 0: there is none. Where
// the log has replicas one that lags may name an earlier one. Of a log that was compacted
// it is the last sequence that was removed, where none is left: an event may have stood
// there, and none after.
func (l *Log) LastOf(ctx context.Context, e policy.Event) (uint64, error) {
	seq, err := l.lastOf(ctx, e)
	if err != nil || seq > 0 {
		return seq, err
	}
	var gone *CompactedError
	if err = l.Removed(ctx, 1); errors.As(err, &gone) {
		return gone.Origin - 1, nil
	}
	return 0, err
}

func (l *Log) lastOf(ctx context.Context, e policy.Event) (uint64, error) {
	subject := wire.Subject(e)
	m, err := l.c.get(ctx, directGet{LastFor: subject}, "the last event on "+subject, LogStream)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return m.Seq, err
}

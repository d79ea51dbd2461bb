package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/edictdev/edict/streams"
)

// formatVersion is the Pebble format every store is created with. Raising it
// is one-way: an older Pebble cannot open the result.
const formatVersion = pebble.FormatValueSeparation

// defaultEdgesMax is how many edges a store keeps before the oldest go and the
// relay must compare whole partitions instead.
const defaultEdgesMax = 4_000_000

// Options says which log a store belongs to, and how it is kept.
type Options struct {
	Partitions int       // of the log; required
	Created    time.Time // of the log; required
	First      uint64    // sequence of the log's first event; 0 is 1
	Relaxed    bool      // leave fsync to the operating system
	EdgesMax   int       // edges kept; 0 is 4,000,000
	Log        *slog.Logger
	Metrics    Metrics

	fs vfs.FS // nil: the disk; tests put memory in its place
}

// Metrics is told what the fold did. The zero value tells nobody.
type Metrics struct {
	// Folded is called after each batch: events in it, and seconds it took.
	Folded func(events int, seconds float64)
	// Rejected is called for each rejected event with its code.
	Rejected func(code string)
}

// Projector folds the log into a Pebble store and the indexes above it.
type Projector struct {
	dir  string
	opt  Options
	db   *pebble.DB
	lock *pebble.Lock
	log  *slog.Logger

	// mu guards memory and Pebble together: whoever holds it for reading sees
	// both at one sequence.
	mu       sync.RWMutex
	state    *state
	pending  []pending
	cursor   cursor
	reported uint64
	failed   error // a write did not reach the store: memory is ahead of it, nothing more is written

	applied  atomic.Uint64
	progress sync.Mutex
	changed  chan struct{}
	verdicts verdicts
}

// Open opens the store in dir, or makes one. It fails with *LockedError,
// *SchemaError or *OtherLogError, each of which says what to do.
func Open(dir string, opt Options) (*Projector, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	opt.First = max(opt.First, 1)
	if opt.EdgesMax == 0 {
		opt.EdgesMax = defaultEdgesMax
	}
	if opt.fs == nil {
		opt.fs = vfs.Default
	}
	db, lock, err := openDB(dir, opt)
	if err != nil {
		return nil, err
	}
	p := &Projector{dir: dir, opt: opt, db: db, lock: lock, log: opt.Log, changed: make(chan struct{})}
	if err := p.load(); err != nil {
		return nil, errors.Join(err, db.Close(), lock.Close())
	}
	p.applied.Store(p.cursor.seq)
	return p, nil
}

func openDB(dir string, opt Options) (*pebble.DB, *pebble.Lock, error) {
	if err := opt.fs.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := pebble.LockDirectory(dir, opt.fs)
	if err != nil {
		return nil, nil, &LockedError{Dir: dir}
	}
	cache := pebble.NewCache(64 << 20)
	defer cache.Unref()
	opts := &pebble.Options{
		FormatMajorVersion:    formatVersion,
		Cache:                 cache,
		MemTableSize:          32 << 20,
		L0CompactionThreshold: 4,
		FS:                    opt.fs,
		Lock:                  lock,
		Logger:                pebbleLog{opt.Log},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open store: %w", err), lock.Close())
	}
	return db, lock, nil
}

// Close flushes, so that the next start need not replay the write-ahead log.
func (p *Projector) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.db.Flush(), p.db.Close(), p.lock.Close())
}

// Log is what Run asks of the log.
type Log interface {
	// Follow yields contiguous batches of events, oldest first, until ctx ends.
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
	getter
}

type getter interface {
	// Get returns one event, or streams.ErrNotFound.
	Get(ctx context.Context, seq uint64) (streams.Message, error)
}

// Run checks that log is the one the store was folded from, then folds until
// ctx ends, when it returns nil.
func (p *Projector) Run(ctx context.Context, log Log) error {
	if err := p.verify(ctx, log); err != nil {
		return err
	}
	for msgs, err := range log.Follow(ctx, p.next()) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow log: %w", err)
		}
		if err := p.Apply(msgs); err != nil {
			return err
		}
	}
	return nil
}

// next is the sequence the fold waits for.
func (p *Projector) next() uint64 { return max(p.Applied()+1, p.opt.First) }

// verify has the event at the cursor prove that this log is the one folded: it
// must exist and continue the chain hash as it did.
func (p *Projector) verify(ctx context.Context, log getter) error {
	p.mu.RLock()
	c := p.cursor
	p.mu.RUnlock()
	if c.seq == 0 {
		return nil
	}
	m, err := log.Get(ctx, c.seq)
	if errors.Is(err, streams.ErrNotFound) {
		return &OtherLogError{p.dir, fmt.Sprintf("it reaches sequence %d, which the log lacks", c.seq)}
	}
	if err != nil {
		return fmt.Errorf("read event %d: %w", c.seq, err)
	}
	e, err := prepare(m)
	if err != nil {
		return err
	}
	if link(c.prev, m.Seq, m.Subject, e.eventID(), e.body) != c.chain {
		return &OtherLogError{p.dir, fmt.Sprintf("event %d differs from the one it folded", c.seq)}
	}
	return nil
}

// Apply folds messages, oldest first, in one atomic batch. Messages at or
// below the cursor are skipped, so an event seen twice counts once. An error
// means that the store no longer follows the log: the projector must be closed.
// What came before the message at fault is folded, unless the store failed.
func (p *Projector) Apply(msgs []streams.Message) error {
	start := time.Now()
	entries, stop := p.admit(msgs)
	made, err := p.commit(entries)
	if err != nil {
		return err
	}
	p.announce(made)
	if p.opt.Metrics.Folded != nil {
		p.opt.Metrics.Folded(len(made), time.Since(start).Seconds())
	}
	return stop
}

// admit prepares the messages above the cursor, up to the first that cannot be
// folded: what is refused here has touched nothing.
func (p *Projector) admit(msgs []streams.Message) ([]entry, error) {
	entries := make([]entry, 0, len(msgs))
	next := p.next()
	for _, m := range msgs {
		if m.Seq < next {
			continue
		}
		if m.Seq != next {
			return entries, fmt.Errorf("log continues at %d, not at %d: it lacks events; stop and verify it", m.Seq, next)
		}
		e, err := prepare(m)
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
		next++
	}
	return entries, nil
}

// commit folds under the lock; the disk's acknowledgement is awaited outside.
func (p *Projector) commit(entries []entry) ([]Verdict, error) {
	p.mu.Lock()
	if p.failed != nil || len(entries) == 0 {
		defer p.mu.Unlock()
		return nil, p.failed
	}
	b := p.db.NewBatchWithSize(64 << 10)
	made, err := p.foldAll(b, entries)
	wait := func() error { return nil }
	switch {
	case err != nil:
	case p.opt.Relaxed:
		err = p.db.Apply(b, pebble.NoSync)
	default:
		err = p.db.ApplyNoSyncWait(b, pebble.Sync)
		wait = b.SyncWait
	}
	p.failed = err
	p.mu.Unlock()
	if err == nil {
		err = wait()
	}
	if err = errors.Join(err, b.Close()); err != nil {
		p.mu.Lock()
		p.failed = err
		p.mu.Unlock()
	}
	return made, err
}

// foldAll folds entries into memory and b, the cursor included.
func (p *Projector) foldAll(b *pebble.Batch, entries []entry) ([]Verdict, error) {
	f := fold{state: p.state, pending: p.pending, batch: b, store: p.db, fresh: map[string]struct{}{}}
	made := make([]Verdict, 0, len(entries))
	c := p.cursor
	for i := range entries {
		e := &entries[i]
		f.seq, f.time = e.msg.Seq, e.msg.Time.UnixNano()
		v := f.event(e)
		v.Seq = f.seq
		if v.Rejection != nil {
			c.rejected++
			fillRejection(v.Rejection, e)
			f.set(rejectionKey(f.seq), encodeRejection(v.Rejection))
		}
		c.seq, c.time = f.seq, f.time
		c.prev, c.chain = c.chain, link(c.chain, f.seq, e.msg.Subject, e.eventID(), e.body)
		made = append(made, v)
	}
	c.nextIdentity, c.nextSelector = uint32(len(p.state.identities)), p.state.nextSel
	f.set(cursorKey(), c.append(nil))
	p.cursor = c
	p.trim(&f)
	p.sweep(&f)
	return made, f.err
}

// announce makes a durable batch visible: verdicts first, then the cursor.
func (p *Projector) announce(made []Verdict) {
	if len(made) == 0 {
		return
	}
	for _, v := range made {
		if v.Rejection != nil && p.opt.Metrics.Rejected != nil {
			p.opt.Metrics.Rejected(v.Rejection.Code)
		}
	}
	p.verdicts.put(made)
	p.progress.Lock()
	p.applied.Store(made[len(made)-1].Seq)
	close(p.changed)
	p.changed = make(chan struct{})
	p.progress.Unlock()
}

// Applied is the last sequence folded and on disk.
func (p *Projector) Applied() uint64 { return p.applied.Load() }

// Changed returns a channel that is closed when Applied next rises. Take it
// before reading Applied.
func (p *Projector) Changed() <-chan struct{} {
	p.progress.Lock()
	defer p.progress.Unlock()
	return p.changed
}

// Wait returns nil once Applied has reached seq, or ctx's error.
func (p *Projector) Wait(ctx context.Context, seq uint64) error {
	for {
		changed := p.Changed()
		if p.Applied() >= seq {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

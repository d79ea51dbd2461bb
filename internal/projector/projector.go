package projector

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
)

// Projector folds the log into a Pebble store and the indexes above it.
type Projector struct {
	model
	progress
	dir    string
	opt    Options
	lock   *pebble.Lock
	fs     vfs.FS          // of the store; writes wait out a full disk
	pebble *pebble.Options // the store's, for tables made beside it
	log    *slog.Logger

	unflushed chan error  // what a flush or a compaction failed with, the first not asked for
	asked     atomic.Bool // somebody waits for a flush, and hears when it fails
	flusher   flusher     // of whoever folds
	mark      reachedMark // of whoever folds
	before    reached     // what an earlier process had, where the store has less

	// Under the lock of the model:
	scratch  scratch // for the next batch
	writer   writer
	writes   sorted // of the batch being folded
	feed     Feed
	reported uint64
	rejected uint64 // of the last rejection that may not be reported
	failed   error  // a write did not reach the store: memory is ahead of it, nothing more is written

	verdicts verdicts
	witness  witness
	met      sync.Once // damage of the store
}

// Apply folds messages, oldest first, in one atomic batch. Messages at or
// below the cursor are skipped, so an event seen twice counts once. An error
// means that the store no longer follows the log: the projector must be closed.
// What came before the message at fault is folded, unless the store failed.
// It must not be called while Run runs.
func (p *Projector) Apply(msgs []streams.Message) error {
	if err := p.broken(); err != nil {
		return err
	}
	v := p.newVerifier()
	entries, stop := v.take(msgs)
	if stop == nil {
		entries = append(entries, v.rest()...)
	}
	for len(entries) > 0 {
		w, err := p.write(entries)
		if err != nil {
			return err
		}
		if err := p.acknowledge(w); err != nil {
			return err
		}
		entries = entries[len(w.made):]
	}
	return stop
}

// broken is why nothing more is written; nil: writes may go on.
func (p *Projector) broken() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.failed
}

// prepareFrom prepares the messages from sequence next on, up to the first that
// cannot be folded. What is refused here has changed nothing. ours is Metrics.Ours.
func prepareFrom(msgs []streams.Message, next uint64, ours func(*streams.Message) bool) ([]entry, error) {
	entries := make([]entry, 0, len(msgs))
	for i := range msgs {
		m := &msgs[i]
		if m.Seq < next {
			continue
		}
		if m.Seq != next {
			return entries, fmt.Errorf("log continues at %d, not at %d: it lacks events; stop and verify it", m.Seq, next)
		}
		e, err := prepare(*m)
		if err != nil {
			return entries, err
		}
		e.ours = ours != nil && ours(m) // lighten takes the headers
		e.lighten()
		entries = append(entries, e)
		next++
	}
	return entries, nil
}

// written is a batch that memory and Pebble hold.
type written struct {
	at    reached
	began time.Time
	made  []Verdict
	trace []Traced
}

// maxBatchBytes is the size at which a batch ends though there is more to fold. One
// event may change hundreds of rows, and readers wait until the batch is written. It
// is far below the size of a memtable: a larger batch would become a table of its own.
const maxBatchBytes = 4 << 20

// write folds under the lock, one batch: of entries, as many as w has verdicts. Others
// hear of it by acknowledge, outside of it.
func (p *Projector) write(entries []entry) (w written, err error) {
	w.began = time.Now()
	if err := errors.Join(p.resumes.drop(), p.makeRoom()); err != nil {
		return w, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil || len(entries) == 0 {
		return w, p.failed
	}
	mode := plainFold
	if p.feed != nil && p.feed.Wanted() {
		mode = edgesFold
	}
	var changes Batch
	p.writes.reset()
	changes, w.made, err = p.foldAll(&p.writes, mode, func() bool { return p.writes.size() >= maxBatchBytes }, entries)
	if p.opt.Metrics.Traced != nil && err == nil {
		w.trace = traces(entries[:len(w.made)], w.made, w.began)
	}
	fault.Pass(fault.CommitBefore)
	if err == nil {
		err = p.store(&p.writes)
	}
	if err != nil {
		p.failed = err
		return w, p.failed
	}
	w.at = p.cursor.reached()
	p.hand(changes)
	return w, nil
}

// store puts a batch into the store, all of it or nothing.
func (p *Projector) store(writes *sorted) error {
	b, err := writes.batch(p.db)
	if err == nil {
		p.flusher.wrote(b.Len())
		err = p.db.Apply(b, pebble.NoSync)
	}
	return errors.Join(err, b.Close())
}

// hand gives a batch to the feed. The disk need not have it: event ids come from the
// log.
func (p *Projector) hand(b Batch) {
	if p.feed != nil {
		p.feed.Take(b)
	}
}

// Feed has f handed every batch from now on; nil: nobody. It returns the
// sequence that the fold stands at, and the log timestamp of that event.
func (p *Projector) Feed(f Feed) (seq uint64, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feed = f
	return p.cursor.seq, logTime(p.cursor.time)
}

// mode is for whom a batch is folded.
type mode int

const (
	plainFold mode = iota // nobody wants edges
	edgesFold             // somebody does
	bulkFold              // a rebuild
)

// acknowledge makes a batch visible. Batches are acknowledged in the order they were
// written.
func (p *Projector) acknowledge(w written) error {
	if err := p.mark.set(w.at); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failed = err
		return err
	}
	fault.Pass(fault.CommitAfter)
	p.announce(w.made)
	if p.opt.Metrics.Folded != nil {
		p.opt.Metrics.Folded(len(w.made), time.Since(w.began).Seconds())
	}
	for _, t := range w.trace {
		p.opt.Metrics.Traced(t)
	}
	return nil
}

// foldAll folds batches into memory and b, the cursor included. It ends early
// where b is full, or the edges are many.
func (p *Projector) foldAll(b sink, m mode, full func() bool, batches ...[]entry) (Batch, []Verdict, error) {
	p.scratch.reset()
	p.writer.begin(b)
	c := p.cursor
	f := fold{judge: judge{state: p.state, store: p.db, scratch: p.scratch}, writer: &p.writer, base: c.base, bulk: m == bulkFold, cache: &p.payloads}
	if m == edgesFold {
		f.edges = &edgeRecorder{counts: map[compiler.Fingerprint]struct{}{}}
	}
	events := 0
	for _, entries := range batches {
		events += len(entries)
	}
	made := make([]Verdict, 0, events)
	for e := range joined(batches) {
		f.seq, f.time, f.trace = e.msg.Seq, e.msg.Time.UnixNano(), e.trace
		v := f.event(e)
		f.usage.spend(f.writer, e)
		v.Seq = f.seq
		if p.opt.Metrics.Unapplied != nil && m != bulkFold && !v.accepted() {
			f.unapplied(e, v, p.opt.Metrics.Unapplied)
		}
		if v.Rejection != nil {
			c.rejected++
			p.rejected = f.seq
			fillRejection(v.Rejection, e)
			f.set(rejectionKey(f.seq), encodeRejection(v.Rejection))
		}
		c.seq, c.time = f.seq, f.time
		c.prev, c.chain, c.older = c.chain, e.chain, e.older
		made = append(made, v)
		if f.edges != nil {
			p.state.sent.add(sentTo{f.seq, f.edges.nodes()})
			f.edges.endEvent()
		}
		if full() || f.edges != nil && f.edges.size >= maxBatchBytes {
			break
		}
	}
	f.usage.store(f.writer)
	f.kept.trim(f.time, p.opt.Past, p.opt.PastBytes, func(r keptRecord) {
		f.key = r.key(f.key[:0])
		f.delete(f.key)
	})
	c.nextIdentity, c.nextSelector = p.state.nextIdent, p.state.nextSel
	c.policies, c.pastFrom = p.state.accepted, p.state.kept.from
	f.value = c.append(f.value[:0])
	f.set(cursorKey(), f.value)
	p.cursor = c
	p.admissionSeq.Store(p.state.admission.last())
	p.accessSeq.Store(p.state.access.last())
	p.scratch = f.scratch
	batch := f.edges.batch(c.seq, &p.state.layout)
	batch.Time = logTime(c.time)
	return batch, made, cmp.Or(f.err, f.end())
}

// joined are the entries of several batches, as of one.
func joined(batches [][]entry) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, entries := range batches {
			for i := range entries {
				if !yield(&entries[i]) {
					return
				}
			}
		}
	}
}

// unbounded never ends a batch.
func unbounded() bool { return false }

// announce makes a batch visible: verdicts first, then the cursor.
func (p *Projector) announce(made []Verdict) {
	if len(made) == 0 {
		return
	}
	for _, v := range made {
		if v.Rejection != nil && p.opt.Metrics.Rejected != nil {
			p.opt.Metrics.Rejected(v.Rejection.Code, v.Rejection.Time)
		}
	}
	p.verdicts.put(made)
	p.reach(made[len(made)-1].Seq)
}

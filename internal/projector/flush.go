package projector

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The log is the store's write-ahead log: Pebble's own is off. What was folded is in
// memory until a flush, and a crash leaves what the last flush held, which is the
// fold of some beginning of the log. The fold goes on from there.
const (
	// flushBytes are as many as are folded again at most, a second or two of work.
	flushBytes = 40 << 20
	// flushEvery is how long something may be folded and not flushed, while there is
	// nothing wrong with the disk.
	flushEvery = 2 * time.Second
	// memTable leaves room for what a table in memory adds to flushBytes: flushes
	// are ours, so that nobody waits for one while readers wait for him.
	memTable = 64 << 20
)

// flusher says when what was folded is to be flushed. It belongs to whoever folds.
type flusher struct {
	bytes int       // written since the last flush began
	since time.Time // the first of them
	under <-chan struct{}
}

// wrote notes bytes that a batch wrote.
func (f *flusher) wrote(bytes int) {
	if f.bytes == 0 {
		f.since = time.Now()
	}
	f.bytes += bytes
}

// makeRoom begins a flush when one is due. It waits for the one before: where the
// disk does not keep up, the fold waits here and no reader does. It must be called
// without the lock of the model.
func (p *Projector) makeRoom() error {
	f := &p.flusher
	if f.bytes == 0 || f.bytes < p.opt.flush && time.Since(f.since) < flushEvery {
		return nil
	}
	var failed <-chan error // that of a store apart may fail
	if p.opt.Apart {
		failed = p.unflushed
	}
	if f.under != nil {
		select {
		case <-f.under:
		case err := <-failed:
			return err
		}
	}
	var err error
	f.under, err = p.db.AsyncFlush()
	f.bytes = 0
	return err
}

// listenToFlushes ends the process when a flush fails that nobody waits for. Pebble
// would try for ever, and hold more and more in memory; the next process folds again
// from what is on disk. A compaction that fails is tried again, and loses nothing. Of a
// store apart the fold ends with it.
func (p *Projector) listenToFlushes(l *pebble.EventListener) {
	var flush atomic.Pointer[error] // how the last one ended; one that had nothing to write has an error, too
	l.FlushEnd = func(info pebble.FlushInfo) { flush.Store(&info.Err) }
	l.BackgroundError = func(err error) {
		select {
		case p.unflushed <- err:
		default:
		}
		if last := flush.Load(); last != nil && *last == err && !p.asked.Load() && !p.opt.Apart {
			pebbleLog{p.log, p.dir}.Fatalf("flush: %v", err)
		}
	}
}

// flush puts what was folded on disk. It tries once: Pebble itself tries for ever.
func (p *Projector) flush() error {
	p.asked.Store(true)
	defer p.asked.Store(false)
	select {
	case <-p.unflushed: // long ago
	default:
	}
	flushed, err := p.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case err := <-p.unflushed:
		return err
	}
}

// errNoHeadroom means that a copy was asked for where the disk is almost full.
var errNoHeadroom = errors.New("the disk has no room for what is to be flushed: free some")

// roomy reports whether the disk has room for a flush.
func (p *Projector) roomy() bool { return p.opt.Headroom == nil || p.opt.Headroom() }

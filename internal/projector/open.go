package projector

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the Pebble format every store is created with. Raising it
// is one-way: an older Pebble cannot open the result.
const formatVersion = pebble.FormatValueSeparation

// Open opens the store in dir, or makes one. It fails with *LockedError,
// *SchemaError, *CorruptError, *OtherLogError or *streams.DamagedError, each of
// which says what to do.
func Open(dir string, opt Options) (*Projector, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	opt.First = max(opt.First, 1)
	opt.Past, opt.PastBytes = cmp.Or(opt.Past, defaultPast), cmp.Or(opt.PastBytes, defaultPastBytes)
	if opt.bulk == 0 {
		opt.bulk = bulkEvents
		if opt.Brief {
			opt.bulk = briefBulk
		}
	}
	if opt.flush == 0 {
		opt.flush = flushBytes
	}
	if opt.fs == nil {
		opt.fs = vfs.Default
	}
	opt.fs = orderedFS{opt.fs}
	p := &Projector{dir: dir, opt: opt, scratch: newScratch(), log: opt.Log, progress: progress{changed: make(chan struct{})}, unflushed: make(chan error, 1)}
	if err := p.openDB(); err != nil {
		return nil, err
	}
	if err := p.load(); err != nil {
		_ = errors.Join(p.db.Close(), p.lock.Close()) // of a store that cannot be read
		return nil, unreadable(p.dir, err)
	}
	p.applied.Store(p.cursor.stands())
	p.witness.begin(p.cursor)
	if err := cmp.Or(p.openReached(), p.Witness(opt.Links)); err != nil {
		return nil, errors.Join(err, p.mark.close(), p.db.Close(), p.lock.Close())
	}
	return p, nil
}

func (p *Projector) openDB() (err error) {
	if err := p.opt.fs.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if p.lock, err = pebble.LockDirectory(p.dir, p.opt.fs); err != nil {
		return notLocked(p.dir, err)
	}
	if err := marked(p.opt.fs, p.dir); err != nil {
		return errors.Join(err, p.lock.Close())
	}
	p.fs = p.opt.fs
	if p.opt.Full != nil {
		p.fs = vfs.OnDiskFull(p.fs, p.opt.Full)
	}
	p.pebble = pebbleOptions(p.fs, p.lock, pebbleLog{p.opt.Log, p.dir})
	p.pebble.EventListener.DataCorruption = p.meet
	p.listenToFlushes(p.pebble.EventListener)
	if p.opt.Brief {
		p.pebble.L0CompactionThreshold, p.pebble.L0StopWritesThreshold = briefFiles, 4*briefFiles
	}
	p.pebble.EnsureDefaults()
	if p.db, err = pebble.Open(p.dir, p.pebble); err != nil {
		return errors.Join(unreadable(p.dir, fmt.Errorf("open store: %w", err)), p.lock.Close())
	}
	return nil
}

// briefFiles are the sublevels that a brief store may gather before they are compacted.
const briefFiles = 64

// blockCache is what the store keeps of its blocks, in bytes. The fold asks it for little, and
// a start fills it with what nobody asks for again; the system keeps the files' pages besides.
const blockCache = 32 << 20

func pebbleOptions(fs vfs.FS, lock *pebble.Lock, log pebbleLog) *pebble.Options {
	opts := &pebble.Options{
		FormatMajorVersion:    formatVersion,
		CacheSize:             blockCache,
		DisableWAL:            true,
		MemTableSize:          memTable,
		L0CompactionThreshold: 8, // a rebuild writes faster than it is read
		FS:                    fs,
		Lock:                  lock,
		Logger:                log,
		// Without a listener Pebble ends the process where it meets damage.
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// Close flushes, so that the next start need not fold it again. Where the disk has no
// room for that, it does without.
func (p *Projector) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.roomy() {
		err = p.flush()
	}
	p.asked.Store(true) // what is under way now may fail
	return errors.Join(err, p.resumes.drop(), p.mark.close(), p.db.Close(), p.lock.Close())
}

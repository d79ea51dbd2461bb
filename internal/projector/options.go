package projector

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
)

// Options says which log a store belongs to, and how it is kept.
type Options struct {
	Partitions int       // of the log; required
	Created    time.Time // of the log; required
	First      uint64    // sequence of the log's first event; 0 is 1
	Base       uint64    // of the log: what its event ids count from
	// Past is how far back, by the log's time, it is kept what nodes lost; 0: 7 days.
	Past time.Duration
	// PastBytes bounds what that takes; 0: 512 MiB.
	PastBytes int
	Log       *slog.Logger
	Metrics   Metrics
	// Full is called when a write meets a full disk. Writes wait until it
	// returns, then the one that failed is tried once more; when that fails too
	// the process ends, as it does at once when Full is nil, but for a store Apart.
	Full func()
	// Apart: the store is not the one that a worker serves. A flush that fails ends the fold, and
	// not the process.
	Apart bool
	// Corrupt is called at most once, when a read of the store meets damage. What
	// is open cannot go on for long; the next Open fails with *CorruptError.
	Corrupt func(err error)
	// Headroom says whether the disk has room for what Close would like to write;
	// nil: it has.
	Headroom func() bool
	// Links are what the log's witness says of the log, oldest first. The fold
	// ends with a *streams.DamagedError where it differs; see Witness.
	Links []streams.Link

	// Brief: the store serves for a while and goes. It is hardly compacted, so that the
	// cores are free for what it is opened for, and reads the labels that nodes had once
	// somebody asks for a node's past.
	Brief bool

	fs    vfs.FS // nil: the disk; tests put memory in its place
	bulk  int    // events in a batch of a rebuild; 0: 50,000
	flush int    // bytes that are folded between flushes; 0: flushBytes
}

// Metrics is called with what the fold did. The zero value does nothing.
type Metrics struct {
	// Folded is called after each batch: events in it, and seconds it took.
	Folded func(events int, seconds float64)
	// Rejected is called for each rejected event with its code, and when the log stored it: a
	// rebuild rejects again what was rejected long ago.
	Rejected func(code string, stored time.Time)
	// Unapplied is called for each event that a quota refuses, or an archived project, and where
	// a quota has a rate for any that was not applied: how many events the rate lets pass in a
	// second (0: any number), and when the log stored this one. It is called in the middle of
	// a batch: it must not read the model.
	Unapplied func(project uuid.UUID, perSecond uint64, stored time.Time)
	// Ours reports of an event, before it is folded, whether a worker appended it: Unapplied
	// does not hear of such a one. nil: none is known to be.
	Ours func(m *streams.Message) bool
	// Traced is called once a batch is in the store, for each run of its events
	// that carry one trace.
	Traced func(Traced)
}

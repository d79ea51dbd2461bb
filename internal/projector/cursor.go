package projector

import (
	"fmt"
	"time"
)

// cursor is how far into which log the state is. prev and chain are the chain
// hash before and at seq, so that the event at seq can prove both the log's
// past and itself when the store is opened.
type cursor struct {
	created  int64 // the log's creation time, unix ns
	first    uint64
	seq      uint64
	time     int64 // log timestamp of seq, unix ns
	prev     [32]byte
	chain    [32]byte
	rejected uint64 // events refused so far
	// Ordinals rise and are never reused.
	nextIdentity uint32
	nextSelector uint32
	// base is what event ids of this log count from.
	base     uint64
	policies uint32 // accepted so far
	pastFrom uint64 // the kept past begins above it
	older    *olderHashes
}

func (c cursor) position() Chain { return Chain{c.seq, c.chain, c.older} }

func (c cursor) reached() reached { return reached{c.created, c.seq, c.prev, c.chain} }

// stands is up to where the log is folded: before its first event, wherever that is,
// a fold lacks nothing.
func (c cursor) stands() uint64 { return max(c.seq+1, c.first) - 1 }

func (c cursor) append(b []byte) []byte {
	b = appendU64(appendU64(b, uint64(c.created)), c.first)
	b = appendU64(appendU64(b, c.seq), uint64(c.time))
	b = append(append(b, c.prev[:]...), c.chain[:]...)
	b = appendU32(appendU32(appendU64(b, c.rejected), c.nextIdentity), c.nextSelector)
	b = appendU64(appendU32(appendU64(b, c.base), c.policies), c.pastFrom)
	if c.older == nil {
		return b
	}
	return append(append(b, c.older.folded[:]...), c.older.read[:]...)
}

func readCursor(b []byte) (c cursor, err error) {
	r := reader{b: b}
	c.created, c.first = r.time(), r.u64()
	c.seq, c.time = r.u64(), r.time()
	c.prev, c.chain = r.hash(), r.hash()
	c.rejected, c.nextIdentity, c.nextSelector = r.u64(), r.u32(), r.u32()
	c.base, c.policies, c.pastFrom = r.u64(), r.u32(), r.u64()
	if len(r.b) > 0 {
		c.older = &olderHashes{r.hash(), r.hash()}
	}
	return c, r.err
}

// readPlace reads of a cursor what every schema has had: which log, and how far.
func readPlace(b []byte) (created int64, seq uint64, err error) {
	r := reader{b: b}
	created, _, seq = r.time(), r.u64(), r.u64()
	return created, seq, r.err
}

// OtherLogError means that the store was folded from a log other than the one
// at hand, or that this log has lost or changed its past.
type OtherLogError struct {
	Dir    string
	Detail string
	Seq    uint64 // the event that is missing or differs; 0: the logs differ otherwise
}

// Error says what differs and what to do.
func (e *OtherLogError) Error() string {
	return fmt.Sprintf("%s was folded from another log: %s; move the directory away to rebuild it from this log, or connect to the log it belongs to", e.Dir, e.Detail)
}

// SchemaError means that the store was written by a newer binary, or by an
// older one whose layout this one does not read.
type SchemaError struct {
	Dir        string
	Have, Know uint32
	Format     bool // the numbers are versions of Pebble's format
}

// Error names both versions.
func (e *SchemaError) Error() string {
	what := "schema"
	if e.Format {
		what = "format"
	}
	if e.Have < e.Know {
		return fmt.Sprintf("%s has store %s %d, older than this binary's %d: move the directory away to rebuild it", e.Dir, what, e.Have, e.Know)
	}
	return fmt.Sprintf("%s has store %s %d, this binary knows %d: run the newer binary, or move the directory away to rebuild it", e.Dir, what, e.Have, e.Know)
}

// LockedError means that another process has the store open.
type LockedError struct{ Dir string }

// Error names the directory.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by another process: stop it, or choose another --data directory", e.Dir)
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

func (m moment) String() string { return fmt.Sprintf("%d %s", m.seq, stamp(m.time)) }

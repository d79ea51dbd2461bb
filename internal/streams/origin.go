package streams

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// OriginKey names the record of the log's origin in bucket EDICT_META.
const OriginKey = "origin"

// Origin is where a log begins that was compacted: what came before its event is, or is to
// be, removed. What the fold made of that is an object that the document describes.
type Origin struct {
	Log    string   // identity of the log that it is of (Log.ID)
	Seq    uint64   // of its event, which is kept, like all that follow
	Before [32]byte // chain hash before that event
	Hash   [32]byte // chain hash with it
	KeyID  string   // of the key that signed the document
	// Archive is what the archive of the removed events was called; "": nobody named one.
	Archive  string
	Document []byte // the signed document, verbatim
	Revision uint64 // of the record
}

// originRecord is an origin as it is stored. Of the document it reads what a log needs to
// know; who restores the origin verifies all of it.
type originRecord struct {
	Log      string          `json:"log"`
	Document json.RawMessage `json:"document"`
}

type originDocument struct {
	Version   uint64 `json:"version"`
	Signature struct {
		KeyID string `json:"key_id"`
	} `json:"signature"`
	Payload struct {
		Before  string `json:"before"`
		Chain   string `json:"chain"`
		Archive string `json:"archive"`
	} `json:"payload"`
}

// ParseOrigin reads a record of an origin, or what a document says that is to become one
// of that log.
func ParseOrigin(log string, document []byte) (Origin, error) {
	var d originDocument
	o := Origin{Log: log, Document: document}
	if err := json.Unmarshal(document, &d); err != nil {
		return o, fmt.Errorf("the document of an origin: %w", err)
	}
	o.Seq, o.KeyID, o.Archive = d.Version, d.Signature.KeyID, d.Payload.Archive
	for text, into := range map[string]*[32]byte{d.Payload.Before: &o.Before, d.Payload.Chain: &o.Hash} {
		if n, err := hex.Decode(into[:], []byte(text[:min(len(text), 2*len(into))])); err != nil || n != len(into) || len(text) != 2*n {
			return o, fmt.Errorf("the document of an origin: %.70q is no chain hash", text)
		}
	}
	if o.Seq == 0 {
		return o, errors.New("the document of an origin names no event")
	}
	return o, nil
}

// FindOrigin reads the record of the log's origin on a server: ErrNotFound where there is
// none.
func FindOrigin(ctx context.Context, c *Conn) (o Origin, err error) {
	meta, err := FindMeta(ctx, c)
	if err != nil {
		return o, err
	}
	value, revision, err := meta.Get(ctx, OriginKey)
	if err != nil {
		return o, err
	}
	var r originRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return o, fmt.Errorf("bucket %s, key %s: %w", MetaBucket, OriginKey, err)
	}
	if o, err = ParseOrigin(r.Log, r.Document); err != nil {
		return o, fmt.Errorf("bucket %s, key %s: %w", MetaBucket, OriginKey, err)
	}
	o.Revision = revision
	return o, nil
}

// RecordOrigin writes the record of an origin in the place of the one that it was made
// after, o.Revision; 0: there was none. ErrWrongSequence: another one was first. After
// ErrUnknown FindOrigin tells.
func RecordOrigin(ctx context.Context, c *Conn, o Origin) (revision uint64, err error) {
	meta, err := OpenMeta(ctx, c)
	if err != nil {
		return 0, err
	}
	value, err := json.Marshal(originRecord{o.Log, o.Document})
	if err != nil {
		return 0, err
	}
	if o.Revision == 0 {
		return meta.Create(ctx, OriginKey, value, 0)
	}
	return meta.Update(ctx, OriginKey, value, o.Revision, 0)
}

// CompactedError means that an event was asked for that lies before the log's origin, and
// may be removed. It is ErrNotFound, too.
type CompactedError struct {
	Seq     uint64 // that was asked for
	Origin  uint64 // where the log begins now
	Archive string // that has what was removed; "": nobody named one
}

// Error says where the log begins, and where to look for the rest.
func (e *CompactedError) Error() string {
	where := "in an archive (edict log export), if one was made before"
	if e.Archive != "" {
		where = "in the archive " + e.Archive
	}
	return fmt.Sprintf("event %d is not in the log any more, which was compacted and begins at %d: look for it %s", e.Seq, e.Origin, where)
}

// Unwrap is ErrNotFound.
func (e *CompactedError) Unwrap() error { return ErrNotFound }

func (o *Origin) lacks(seq uint64) error {
	return &CompactedError{Seq: seq, Origin: o.Seq, Archive: o.Archive}
}

// beginning is which log there is, and where it begins.
type beginning struct {
	c       *Conn
	created time.Time
	first   uint64
	origin  atomic.Pointer[Origin] // nil: none is needed
}

// Created is when the stream was made, by the server's clock: the log's
// identity.
func (l *beginning) Created() time.Time { return l.created }

// ID is the log's identity as headers and metadata carry it: Created in unix
// nanoseconds.
func (l *beginning) ID() string { return logIDOf(l.created) }

// First is the sequence of the log's first event, ever. Begins is the one that it has
// now.
func (l *beginning) First() uint64 { return l.first }

// same checks that the stream is the log that was opened.
func (l *beginning) same(info *jetstream.StreamInfo) error {
	if !info.Created.Equal(l.created) {
		return &DamagedError{Damage: DamageOther, Detail: fmt.Sprintf("%s was made %s, not %s: it is another log; start with the old log, or rebuild from this one",
			LogStream, info.Created.UTC().Format(time.RFC3339Nano), l.created.Format(time.RFC3339Nano))}
	}
	if first := stateOf(info).First; first > l.Begins() {
		return l.relocate(first)
	}
	return nil
}

func (l *beginning) missing(want, have uint64) error {
	return &DamagedError{
		Damage: DamageHole, From: want, To: have - 1,
		Detail: fmt.Sprintf("%s lacks sequence %d: the next is %d; restore the stream from a backup", LogStream, want, have),
	}
}

// unrecorded is missing where no origin is recorded, which may be all that is lost.
func (l *beginning) unrecorded(first uint64) error {
	return &DamagedError{
		Damage: DamageHole, From: l.first, To: first - 1,
		Detail: fmt.Sprintf("%s lacks sequence %d: the next is %d, and no origin is recorded; if it was compacted put back the stream KV_%s, which had the record, else restore the stream from a backup",
			LogStream, l.first, first, MetaBucket),
	}
}

// LostOriginError means that what a compacted log begins with is not there any more. Workers
// that run do not need it, and none can begin without.
type LostOriginError struct {
	Seq  uint64 // of the origin
	Lost string // what is gone
}

// Error says what, and what to do.
func (e *LostOriginError) Error() string {
	return fmt.Sprintf("%s begins at %d, and %s is gone: put it back from a copy, and restart no worker before; without it none can begin, and no backup can be made",
		LogStream, e.Seq, e.Lost)
}

// RecordedOrigin is the origin as it is recorded now: *LostOriginError where the log begins
// at one, and it is not; ok is false where it has its first event still, and needs none.
func (l *beginning) RecordedOrigin(ctx context.Context) (o Origin, ok bool, err error) {
	at := l.origin.Load()
	if at == nil {
		return o, false, nil
	}
	o, err = FindOrigin(ctx, l.c)
	if errors.Is(err, ErrNotFound) || err == nil && o.Log != l.ID() {
		err = &LostOriginError{at.Seq, "its record in the stream KV_" + MetaBucket}
	}
	return o, err == nil, err
}

// Origin is where the log begins; ok is false where it has its first event still, and
// needs none.
func (l *beginning) Origin() (o Origin, ok bool) {
	if at := l.origin.Load(); at != nil {
		return *at, true
	}
	return o, false
}

// Begins is the first sequence that the log must have: that of its origin, or First.
func (l *beginning) Begins() uint64 {
	if at := l.origin.Load(); at != nil {
		return at.Seq
	}
	return l.first
}

// Removed says whether an event is one that lies before the log's origin as it is
// recorded now: *CompactedError.
func (l *beginning) Removed(ctx context.Context, seq uint64) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err == nil {
		err = l.same(info)
	}
	if err != nil {
		return err
	}
	if at := l.origin.Load(); at != nil && seq < at.Seq && seq < stateOf(info).First {
		return at.lacks(seq)
	}
	return nil
}

// locate finds where a log begins that has no event before first: at its first one, or at
// an origin that is recorded. Else it lacks events.
func (l *beginning) locate(ctx context.Context, first uint64) error {
	if at := l.origin.Load(); at != nil && first <= at.Seq {
		return nil
	}
	o, err := FindOrigin(ctx, l.c)
	switch {
	case errors.Is(err, ErrNotFound) && first == l.first:
		return nil
	case errors.Is(err, ErrNotFound):
		return l.unrecorded(first)
	case err != nil:
		return err
	case o.Log != l.ID() && first == l.first:
		return nil // of a log that is gone
	case o.Log != l.ID():
		return l.missing(l.first, first)
	case first > o.Seq:
		return l.missing(o.Seq, first)
	case first > l.first || o.Seq == l.first:
		l.origin.Store(&o)
	}
	return nil
}

// OpenRestored opens a log that begins at an origin which is recorded for one with another
// identity, as a stream has that was restored: ErrNotFound where it is not so. Nothing says yet that
// it is the log of that origin: that is for who reads its events to prove, and for an operator to
// declare (KeepOrigin).
func OpenRestored(ctx context.Context, c *Conn) (*Log, error) {
	info, err := c.streamInfo(ctx, LogStream)
	if err != nil {
		return nil, err
	}
	o, err := FindOrigin(ctx, c)
	if err != nil {
		return nil, err
	}
	l := logOn(c, info)
	if o.Log == l.ID() || stateOf(info).First != o.Seq {
		return nil, ErrNotFound
	}
	l.origin.Store(&o)
	return l, nil
}

// KeepOrigin records the origin that the log begins with as its own, where OpenRestored opened it:
// the caller has proved that the log goes on from it, and declares it to be the one that was
// restored. It may be repeated.
func (l *beginning) KeepOrigin(ctx context.Context) error {
	at := l.origin.Load()
	if at == nil || at.Log == l.ID() {
		return nil
	}
	o := *at
	o.Log = l.ID()
	revision, err := RecordOrigin(ctx, l.c, o)
	if err != nil {
		return fmt.Errorf("record the origin of the log: %w", err)
	}
	o.Revision = revision
	l.origin.Store(&o)
	return nil
}

// originPatience bounds a look at the record of the origin by who cannot wait for long.
const originPatience = 5 * time.Second

// relocate is locate for who has no context.
func (l *beginning) relocate(first uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), originPatience)
	defer cancel()
	return l.locate(ctx, first)
}

// removed says of a sequence that a follower did not get whether it lies before the
// origin.
func (l *beginning) removed(seq, next uint64) error {
	if l.relocate(next) != nil {
		return nil
	}
	if at := l.origin.Load(); at != nil && next <= at.Seq {
		return at.lacks(seq)
	}
	return nil
}

// ErrDenyPurge means that the stream of the log was made by a release that had it refuse
// ever to remove an event, which its server cannot take back.
var ErrDenyPurge = errors.New(LogStream + " was made with deny_purge, which no server takes back: to compact such a log, make a new one of it " +
	"(edict log export, then edict log import into a new data directory, or to other servers)")

// Purgeable says why nothing can be removed from the log: ErrDenyPurge; nil: it can.
func (l *beginning) Purgeable(ctx context.Context) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err == nil {
		err = l.same(info)
	}
	if err == nil && info.Config.DenyPurge {
		err = ErrDenyPurge
	}
	return err
}

// Purge removes what lies before the origin that is recorded, which the caller has
// verified to be this one. It may be repeated.
func (l *beginning) Purge(ctx context.Context, o Origin) error {
	stands, err := FindOrigin(ctx, l.c)
	if err != nil {
		return fmt.Errorf("remove what lies before %d: %w", o.Seq, err)
	}
	if stands.Log != l.ID() || string(stands.Document) != string(o.Document) {
		return fmt.Errorf("remove what lies before %d: %w: the origin of the log is another one, at %d", o.Seq, ErrWrongSequence, stands.Seq)
	}
	ctx, cancel := l.c.during(ctx, commitTimeout)
	defer cancel()
	s, err := l.c.js.Stream(ctx, LogStream)
	if err == nil {
		err = l.same(s.CachedInfo())
	}
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(o.Seq))
	}
	if err != nil {
		return fmt.Errorf("remove what lies before %d: %w", o.Seq, err)
	}
	if s, err = l.c.js.Stream(ctx, LogStream); err != nil {
		return fmt.Errorf("look what was removed: %w", err)
	}
	return l.same(s.CachedInfo())
}

// logIDOf is a log's identity by when it was made.
func logIDOf(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 10) }

// before reports whether an event lies before the log's origin, as far as that is known: it is
// removed, or is to be.
func (l *beginning) before(seq uint64) bool {
	at := l.origin.Load()
	return at != nil && seq < at.Seq
}

// otherwise reports whether an event is removed that was thought to be there, or the other way
// round: others compact the log, and may be cut off before they remove anything.
func (l *beginning) otherwise(ctx context.Context, seq uint64, removed bool) bool {
	err := l.Removed(ctx, seq)
	is := errors.As(err, new(*CompactedError))
	return (is || err == nil) && is != removed
}

// expecting is o as the server is to compare it: of a subject whose events are all removed
// it knows no last one.
func (o *Outgoing) expecting(removed bool) *Outgoing {
	if !removed {
		return o
	}
	first := *o
	first.Expect = 0
	return &first
}

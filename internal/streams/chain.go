package streams

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Link is one entry of the witness: the chain hash of a log at a sequence
// (docs/design.md#the-read-model), as somebody folded it.
type Link struct {
	Log  string // the log's identity (Log.ID)
	Base uint64 // what the log's event ids counted from (Log.Base); 0: an older edict did not say
	Seq  uint64
	Hash [32]byte
	// Accepted: an operator took the log, as it was then, for the truth. What
	// the witness said before is void.
	Accepted bool
	// Restored: the log had been put back from a backup, and its event ids begin
	// anew at Base. What the witness said before stands.
	Restored bool
	// At is the entry's place in EDICT_CHAIN, Time the server's timestamp. Both
	// are 0 where the link was not read from there.
	At   uint64
	Time time.Time
}

// linkJSON is a link as it is stored.
type linkJSON struct {
	Log      string `json:"log"`
	Base     uint64 `json:"base,omitempty"`
	Seq      uint64 `json:"seq"`
	Hash     string `json:"hash"` // 64 hex digits
	Accepted bool   `json:"accepted,omitempty"`
	Restored bool   `json:"restored,omitempty"`
}

func (l Link) body() []byte {
	b, err := json.Marshal(linkJSON{Log: l.Log, Base: l.Base, Seq: l.Seq, Hash: hex.EncodeToString(l.Hash[:]), Accepted: l.Accepted, Restored: l.Restored})
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	return b
}

func parseLink(m *Message) (Link, error) {
	var j linkJSON
	if err := json.Unmarshal(m.Body, &j); err != nil {
		return Link{}, err
	}
	l := Link{Log: j.Log, Base: j.Base, Seq: j.Seq, Accepted: j.Accepted, Restored: j.Restored, At: m.Seq, Time: m.Time}
	if n, err := hex.Decode(l.Hash[:], []byte(j.Hash)); err != nil || n != len(l.Hash) || len(j.Hash) != hex.EncodedLen(n) {
		return Link{}, fmt.Errorf("hash %q is not 64 hex digits", j.Hash)
	}
	return l, nil
}

// LastID is the highest event id that may have been given out when the link was made.
func (l Link) LastID() policy.EventID {
	base := l.Base
	if base == 0 {
		created, err := strconv.ParseInt(l.Log, 10, 64)
		if err != nil {
			return 0
		}
		base = baseAt(time.Unix(0, created))
	}
	return policy.EndOf(base, l.Seq)
}

// Chain is stream EDICT_CHAIN, the log's witness: what the chain hash was, at
// sequence after sequence, kept apart from the log so that a log that lost or
// changed its past is found out.
type Chain struct {
	c       *Conn
	created time.Time
}

// OpenChain makes the stream, or checks the one that exists: *ConfigError.
func OpenChain(ctx context.Context, c *Conn) (*Chain, error) {
	info, made, err := c.openStream(ctx, jetstream.StreamConfig{
		Name:        ChainStream,
		Description: "The chain hash of " + LogStream + " as it was folded, link by link",
		Subjects:    []string{wire.SubjectChain},
		Storage:     jetstream.FileStorage,
		Replicas:    c.Replicas(),
		Discard:     jetstream.DiscardNew,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		Metadata:    map[string]string{},
	}, chainFaults)
	if err != nil {
		return nil, fmt.Errorf("open the log's witness: %w", err)
	}
	if made {
		c.log.Info("made the log's witness", "stream", ChainStream)
	}
	return &Chain{c: c, created: info.Created.UTC()}, nil
}

// FindChain is OpenChain, but makes nothing: ErrNotFound.
func FindChain(ctx context.Context, c *Conn) (*Chain, error) {
	if _, err := c.streamInfo(ctx, ChainStream); err != nil {
		return nil, err
	}
	return OpenChain(ctx, c)
}

func chainFaults(cfg jetstream.StreamConfig) []Fault {
	var f faults
	f.subjects(cfg.Subjects, []string{wire.SubjectChain})
	f.kept(cfg)
	f.unless(cfg.MaxMsgsPerSubject <= 0, "max_msgs_per_subject", cfg.MaxMsgsPerSubject, "-1: every link is kept")
	f.unless(cfg.DenyDelete, "deny_delete", cfg.DenyDelete, "true: what was witnessed stays")
	f.unless(cfg.DenyPurge, "deny_purge", cfg.DenyPurge, "true: what was witnessed stays")
	f.unless(!cfg.AllowRollup, "allow_rollup_hdrs", cfg.AllowRollup, "false: a roll-up removes links")
	return f
}

func (w *Chain) same(info *jetstream.StreamInfo) error {
	if !info.Created.Equal(w.created) {
		return &DamagedError{Damage: DamageOther, Detail: fmt.Sprintf("%s was remade %s; open it again", ChainStream, info.Created.UTC().Format(time.RFC3339Nano))}
	}
	return nil
}

// Links is everything the witness holds, oldest first, and its last sequence:
// where the next link is appended.
func (w *Chain) Links(ctx context.Context) (links []Link, last uint64, err error) {
	info, err := w.c.streamInfo(ctx, ChainStream)
	if err != nil {
		return nil, 0, err
	}
	if err := w.same(info); err != nil {
		return nil, 0, err
	}
	last = info.State.LastSeq
	if info.State.Msgs == 0 {
		return nil, last, nil
	}
	f := follower{c: w.c, stream: ChainStream, next: 1, to: last, verify: w.same}
	for msgs, err := range f.follow(ctx) {
		if err != nil {
			return nil, 0, fmt.Errorf("read the log's witness: %w", err)
		}
		for _, l := range w.parse(msgs) {
			links = append(lacking(links, l.At), l)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("read the log's witness: %w", err)
	}
	links = lacking(links, last+1)
	if n := Unreadable(links); n > 0 {
		w.c.log.Warn("links of the log's witness cannot be read: the log is verified by the others", "stream", ChainStream, "entries", n, "of", len(links))
	}
	return links, last, nil
}

// lacking appends a place for each entry below the one at next that the server
// does not give: a byte of it changed on disk.
func lacking(links []Link, next uint64) []Link {
	for at := uint64(len(links)) + 1; at < next; at++ {
		links = append(links, Link{At: at})
	}
	return links
}

// Unreadable counts the links that are there and say nothing.
func Unreadable(links []Link) (n int) {
	for _, l := range links {
		if l.Log == "" {
			n++
		}
	}
	return n
}

// Unwitnessed is that a log has a witness of which no link can be read; nil: one
// can be, or there is none at all.
func Unwitnessed(links []Link) error {
	if n := Unreadable(links); n == 0 || n < len(links) {
		return nil
	}
	return &DamagedError{Damage: DamageUnwitnessed, Detail: fmt.Sprintf(
		"none of the %d links of %s can be read, so nothing says that %s is the log that was folded; if nobody exchanged it, 'edict log accept' takes it for the log",
		len(links), ChainStream, LogStream)}
}

// Follow yields what the witness holds from its sequence from on, until ctx
// ends. What is not a link is skipped with a warning. The iteration ends with
// *DamagedError when the stream was remade.
func (w *Chain) Follow(ctx context.Context, from uint64) iter.Seq2[[]Link, error] {
	return func(yield func([]Link, error) bool) {
		f := follower{c: w.c, stream: ChainStream, next: max(1, from), verify: w.same}
		for msgs, err := range f.follow(ctx) {
			if !yield(w.parse(msgs), err) {
				return
			}
		}
	}
}

func (w *Chain) parse(msgs []Message) []Link {
	links := make([]Link, 0, len(msgs))
	for i := range msgs {
		l, err := parseLink(&msgs[i])
		if err != nil {
			w.c.log.Warn("a link of the log's witness cannot be read", "stream", ChainStream, "seq", msgs[i].Seq, "error", err)
			l = Link{At: msgs[i].Seq} // its place counts
		}
		links = append(links, l)
	}
	return links
}

// Append adds l behind the entry at after (0: none yet) and returns its place.
// ErrWrongSequence: somebody else was there first, read on; ErrUnknown: it may
// be stored or not, read on.
func (w *Chain) Append(ctx context.Context, after uint64, l Link) (at uint64, err error) {
	// Of the stream, not of its one subject: the server does not know the last of a
	// subject that it cannot read.
	o := Outgoing{Subject: wire.SubjectChain, Body: l.body(), Header: []string{headerExpectSeq, strconv.FormatUint(after, 10)}}
	a, err := w.c.store(ctx, newEncoder("").encode(&o, 0), requestTimeout)
	if err != nil {
		return 0, fmt.Errorf("append to the log's witness: %w", err)
	}
	return a.Seq, nil
}

// EffectiveLinks are those of links, oldest first, that count: those since the
// last acceptance, it included, that can be read.
func EffectiveLinks(links []Link) []Link {
	effective := make([]Link, 0, len(links))
	for _, l := range links {
		if l.Accepted {
			effective = effective[:0]
		}
		if l.Log != "" {
			effective = append(effective, l)
		}
	}
	return effective
}

// VerifyExtent compares what the server says of the log's identity, end and number
// of events with links of the witness, those that count (EffectiveLinks). It is a
// *DamagedError when the log is another one, gives event ids from a lower base,
// ends before the last link, or has fewer events than sequences.
func (l *Log) VerifyExtent(ctx context.Context, links []Link) error {
	last := uint64(0)
	if len(links) > 0 {
		w := links[len(links)-1]
		if w.Log != l.ID() {
			return &DamagedError{Damage: DamageOther, To: w.Seq, Detail: fmt.Sprintf("%s has identity %s, the witness %s is of %s, up to event %d",
				LogStream, l.ID(), ChainStream, w.Log, w.Seq)}
		}
		if w.Base > l.base {
			return &DamagedError{Damage: DamageOther, To: w.Seq, Detail: fmt.Sprintf("event ids of the log that was witnessed count from %d, those of %s from %d: it was put back from a backup",
				w.Base, LogStream, l.base)}
		}
		last = w.Seq
	}
	var s State
	for try := 0; ; try++ {
		info, err := l.c.streamInfo(ctx, LogStream)
		if err != nil {
			return err
		}
		if err := l.same(info); err != nil {
			return err
		}
		s = stateOf(info)
		if n := s.Last + 1 - s.First; s.Last+1 > s.First && s.Messages < n {
			return &DamagedError{
				Damage: DamageHole, From: s.First, To: s.Last,
				Detail: fmt.Sprintf("%s has %d events from %d to %d, %d are missing", LogStream, s.Messages, s.First, s.Last, n-s.Messages),
			}
		}
		if s.Last >= last {
			return nil
		}
		// A leader that was just elected may not have read all of its own yet.
		if l.replicas == 1 || try == extentTries || backoff.Sleep(ctx, extentPause) != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return &DamagedError{
		Damage: DamageTruncated, From: s.Last + 1, To: last,
		Detail: fmt.Sprintf("%s ends at %d, but event %d was witnessed: it lost its tail", LogStream, s.Last, last),
	}
}

const (
	extentTries = 8
	extentPause = 100 * time.Millisecond
)

// MissingLog says that there is no log, although the witness knows one;
// nil: there is a log, or there never was one.
func MissingLog(ctx context.Context, c *Conn) error {
	_, there, err := LogCreated(ctx, c)
	if err != nil || there {
		return err
	}
	w, err := FindChain(ctx, c)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	links, _, err := w.Links(ctx)
	if err != nil {
		return err
	}
	effective := EffectiveLinks(links)
	if len(effective) == 0 {
		return nil
	}
	last := effective[len(effective)-1]
	return &DamagedError{Damage: DamageGone, To: last.Seq, Detail: fmt.Sprintf("%s is gone; the witness %s is of log %s, up to event %d",
		LogStream, ChainStream, last.Log, last.Seq)}
}

// Lost is the type of the events that Fill appends. No fold knows it, so they
// are rejected, so the list of rejected events has the sequences that were lost.
const Lost = "sequence_lost"

// Fill appends events that mean nothing, until the log ends at sequence to: what
// comes then is above every version that was given out before a loss. progress is
// called with the log's end as it rises.
func (l *Log) Fill(ctx context.Context, to uint64, progress func(seq uint64)) error {
	s, err := l.State(ctx)
	if err != nil {
		return err
	}
	for s.Last < to {
		outs := make([]Outgoing, min(to-s.Last, uint64(l.c.maxBatch)))
		for i := range outs {
			event := uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s %d", l.ID(), s.Last+1+uint64(i)))
			outs[i] = Outgoing{
				Subject: wire.PrefixLog + uuid.Nil.String() + "." + policy.FamilyNode + ".lost",
				Body:    fmt.Appendf(nil, `{"id":%q,"type":%q,"project_id":%q,"node_id":"lost"}`, event, Lost, uuid.Nil),
			}
		}
		for _, r := range l.together(ctx, outs, true) {
			if r.err != nil {
				return fmt.Errorf("fill the log up to %d: %w", to, r.err)
			}
			s.Last = r.seq
		}
		progress(s.Last)
	}
	return nil
}

// KeepReplicas has what is made on this connection from now on kept by as many
// servers as that stream is, if it exists. Not while others use the connection.
func (c *Conn) KeepReplicas(ctx context.Context, stream string) error {
	info, err := c.streamInfo(ctx, stream)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		c.replicas = info.Config.Replicas
	}
	return err
}

// Reconnects counts how often the connection was lost and found again. What
// answers then may be a server that came back with less than it had.
func (c *Conn) Reconnects() uint64 { return c.nc.Stats().Reconnects }

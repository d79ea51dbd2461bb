package integrity

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// ErrNoLog means that a server has no log, and nobody witnessed one.
var ErrNoLog = errors.New("there is no log: " + streams.LogStream + " is not on that server")

// Progress is called when something long begins, of total units in all. at is
// called with how many are done, end when it is over.
type Progress func(what, unit string, total int64) (at func(done int64), end func())

// Report is what Verify found of a log.
type Report struct {
	Log       string `json:"log"`   // identity; empty: there is none
	First     uint64 `json:"first"` // that it has: its origin's event, if it was compacted
	Last      uint64 `json:"last"`
	Verified  uint64 `json:"verified"`  // the last sequence that was read and agreed
	Hash      string `json:"hash"`      // the chain hash there, 64 hex digits
	Links     int    `json:"links"`     // compared with, or to be
	Witnessed uint64 `json:"witnessed"` // the last one's sequence
	// Unreadable is how many links are there and say nothing.
	Unreadable int          `json:"unreadable"`
	Accepted   []Acceptance `json:"accepted"`
	Restored   []Acceptance `json:"restored"`
	Damage     *Damage      `json:"damage"` // null: the log is whole

	progress Progress
	at       uint64         // the witness's last entry
	links    []streams.Link // that count
	high     uint64         // the highest sequence ever witnessed
	// unwitnessed: no link can be read.
	unwitnessed error
	// highID is the highest event id that may have been given out of what was
	// witnessed.
	highID policy.EventID
	log    *streams.Log
	chain  *streams.Chain
}

// Acceptance is a log that an operator took for the truth, or that was put back
// from a backup.
type Acceptance struct {
	Log  string    `json:"log"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// Damage is the first fault of a log.
type Damage struct {
	Kind      string  `json:"kind"`
	From      uint64  `json:"from"` // the first sequence that is missing or may be wrong
	To        uint64  `json:"to"`   // the last
	LinkBelow uint64  `json:"link_below"`
	LinkAbove *uint64 `json:"link_above"` // null: nobody witnessed what came then
	Detail    string  `json:"detail"`
}

// Verify reads the whole log that conn has and compares it with its witness. A
// damaged log is no error; without any it is ErrNoLog.
func Verify(ctx context.Context, conn *streams.Conn, progress Progress) (*Report, error) {
	r := &Report{Accepted: []Acceptance{}, Restored: []Acceptance{}, progress: progress}
	if err := r.readWitness(ctx, conn); err != nil {
		return nil, err
	}
	if _, there, err := streams.LogCreated(ctx, conn); err != nil {
		return nil, err
	} else if !there {
		err := streams.MissingLog(ctx, conn)
		if err == nil {
			err = ErrNoLog
		}
		return r, r.found(err)
	}
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	if errors.As(err, new(*streams.DamagedError)) {
		if restored, rerr := streams.OpenRestored(ctx, conn); rerr == nil {
			log, err = restored, nil
		}
	}
	if err != nil {
		return r, r.found(err)
	}
	r.log, r.Log, r.First = log, log.ID(), log.Begins()
	state, err := log.State(ctx)
	if err != nil {
		return nil, err
	}
	r.Last = state.Last
	return r, r.found(r.verify(ctx))
}

// verify compares the log, which is open, with the links. The error is the fault
// that says most.
func (r *Report) verify(ctx context.Context) error {
	extent := r.log.VerifyExtent(ctx, r.links)
	if extent == nil {
		extent = r.unwitnessed
	}
	err := r.read(ctx)
	var other *streams.DamagedError
	if errors.As(extent, &other) && other.Damage == streams.DamageOther {
		// The identity says more than what follows from it; but a log that was
		// restored has the same events.
		if err == nil && r.Last >= r.Witnessed {
			other.Detail += "; but its events are the ones that were witnessed: it was copied or restored"
		}
		return other
	}
	if err == nil {
		err = extent
	}
	if o, ok := r.log.Origin(); ok && err == nil && o.Log != r.log.ID() {
		err = &streams.DamagedError{Damage: streams.DamageOther, To: r.Last, Detail: fmt.Sprintf(
			"%s has identity %s, and its origin is recorded for log %s; but its events go on from there: it was copied or restored", streams.LogStream, r.log.ID(), o.Log)}
	}
	return err
}

// readWitness notes what the witness says.
func (r *Report) readWitness(ctx context.Context, conn *streams.Conn) error {
	chain, links, at, err := FindLinks(ctx, conn)
	if err != nil || chain == nil {
		return err
	}
	r.chain = chain
	r.Accepted, r.Restored = []Acceptance{}, []Acceptance{}
	for _, l := range links {
		r.high, r.highID = max(r.high, l.Seq), max(r.highID, l.LastID())
		if l.Accepted {
			r.Accepted = append(r.Accepted, Acceptance{l.Log, l.Seq, l.Time})
		}
		if l.Restored {
			r.Restored = append(r.Restored, Acceptance{l.Log, l.Seq, l.Time})
		}
	}
	r.at, r.links = at, streams.EffectiveLinks(links)
	r.Unreadable, r.unwitnessed = streams.Unreadable(links), streams.Unwitnessed(links)
	r.Links = len(r.links)
	if n := len(r.links); n > 0 {
		r.Witnessed = r.links[n-1].Seq
	}
	return nil
}

// read computes the chain hash of the log, as far as it agrees with the links.
func (r *Report) read(ctx context.Context) error {
	begin, origin := projector.Beginning(r.log)
	last, short := r.log.Reaches(ctx, r.Last)
	if short != nil && !errors.As(short, new(*streams.DamagedError)) {
		return short
	}
	at, end := r.begin("verifying", "events", int64(r.Last-begin.Seq))
	defer end()
	chain, err := projector.Audit(ctx, r.log, begin, last, append(origin, r.links...), func(seq uint64) { at(int64(seq - begin.Seq)) })
	r.Verified, r.Hash = chain.Seq, hex.EncodeToString(chain.Hash[:])
	return cmp.Or(err, short)
}

func (r *Report) begin(what, unit string, total int64) (at func(int64), end func()) {
	if r.progress == nil {
		return func(int64) {}, func() {}
	}
	return r.progress(what, unit, total)
}

// found notes the damage that err names, and passes on any other error.
func (r *Report) found(err error) error {
	var d *streams.DamagedError
	if !errors.As(err, &d) {
		return err
	}
	r.Damage = &Damage{Kind: d.Damage, From: d.From, To: d.To, Detail: d.Detail}
	for _, l := range r.links {
		if l.Seq < d.From {
			r.Damage.LinkBelow = max(r.Damage.LinkBelow, l.Seq)
		}
	}
	i := slices.IndexFunc(r.links, func(l streams.Link) bool { return l.Seq >= d.To && l.Seq > 0 })
	if i >= 0 {
		r.Damage.LinkAbove = &r.links[i].Seq
	}
	return nil
}

// ProveOrigin has what the log begins with proved, where the log is whole otherwise and was opened:
// prove is given it.
func (r *Report) ProveOrigin(prove func(*streams.Log) error) error {
	if r.Damage != nil || r.log == nil {
		return nil
	}
	return r.found(prove(r.log))
}

// CompareReadModel compares the log with a read model in dir that was folded from
// it, zero: there is none. One that is ahead shows a loss that no link was made
// for yet.
func (r *Report) CompareReadModel(store projector.Identity, dir string) {
	if r.Damage != nil || store.Seq <= r.Last {
		return
	}
	r.Damage = &Damage{
		Kind: streams.DamageTruncated, From: r.Last + 1, To: store.Seq, LinkBelow: r.Witnessed,
		Detail: fmt.Sprintf("the log ends at %d, the read model in %s had folded it up to %d", r.Last, dir, store.Seq),
	}
}

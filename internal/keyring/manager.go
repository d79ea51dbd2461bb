package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Log is what is asked of the log that rotations stand in; *streams.Log is one.
type Log interface {
	Holds(ctx context.Context, e policy.Event) (bool, error)
	Origin() (o streams.Origin, ok bool)
	Publish(ctx context.Context, a streams.Append) (seq uint64, duplicate bool, err error)
}

// Options are what a Manager is made of.
type Options struct {
	Files Files
	Open  func(context.Context) (Bucket, error) // EDICT_META; called again when it is lost
	Log   Log
	// Stopped is why nothing may be written to the log; nil, or its nil: it may be.
	Stopped func() error
	// LeastTransition bounds how short a rotation may be; 0: LeastTransition.
	LeastTransition time.Duration
	Logger          *slog.Logger // nil: nobody hears
}

// Manager holds the keys of one worker. It is safe for concurrent use.
type Manager struct {
	opt  Options
	log  *slog.Logger
	ring *artifact.Keyring

	change sync.Mutex  // one change at a time, files included
	untidy atomic.Bool // the files are not in order
	logged uuid.UUID   // event of the last rotation that the log is known to hold; guarded by change

	mu     sync.Mutex // what follows
	held   map[string]*artifact.Signer
	made   []string // ids of keys that this process made
	record record
	bucket Bucket
}

// Load reads every key that this worker holds, and makes the first one where the
// plane makes its keys itself. Open goes by the record then.
func Load(opt Options) (*Manager, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Stopped == nil {
		opt.Stopped = func() error { return nil }
	}
	opt.LeastTransition = cmp.Or(opt.LeastTransition, LeastTransition)
	all, err := opt.Files.load()
	if err != nil {
		return nil, err
	}
	m := &Manager{opt: opt, log: opt.Logger, ring: artifact.NewKeyring(all[0]), held: map[string]*artifact.Signer{}}
	for _, s := range all {
		m.held[s.KeyID()] = s
	}
	return m, nil
}

// Was reports whether a key is the plane's, or ever was, by its record.
func (m *Manager) Was(keyID string) bool { return m.now().used(keyID) }

// Ring is what the plane signs with, as it changes.
func (m *Manager) Ring() *artifact.Keyring { return m.ring }

// Open holds this worker's keys against the plane's record, and makes the record
// where the plane has none yet. Of workers that record different ones at the
// same time one is first, and the other is refused: *OtherKeyError.
func (m *Manager) Open(ctx context.Context) error {
	bucket, err := m.opt.Open(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	known := m.record
	known.revision, m.record.revision, m.bucket = 0, 0, bucket
	m.mu.Unlock()
	r, err := readRecord(ctx, bucket)
	if errors.Is(err, streams.ErrNotFound) {
		if known.KeyID == "" {
			known.Key = publicKey(m.ring.Current())
		}
		r, err = writeRecord(ctx, bucket, known)
		if errors.Is(err, streams.ErrWrongSequence) {
			err = nil // somebody else was first
		}
	}
	if err != nil {
		return err
	}
	return m.apply(ctx, r)
}

// apply goes by a record: it signs with the record's key from now on, and keeps
// the files of the keys that are needed. The error is *OtherKeyError, or that
// the log does not hold the rotation yet.
func (m *Manager) apply(ctx context.Context, r record) error {
	m.change.Lock()
	defer m.change.Unlock()
	return m.applyLocked(ctx, r)
}

// applyLocked is apply for a caller that holds m.change.
func (m *Manager) applyLocked(ctx context.Context, r record) error {
	if err := m.logRotation(ctx, r); err != nil {
		return err
	}
	if err := m.signWith(r); err != nil {
		return err
	}
	if !m.opt.Files.ours() {
		return nil
	}
	over, err := m.endTransition(ctx, time.Now())
	if err = errors.Join(err, m.keepFiles()); err != nil {
		m.log.Warn("the files of the plane's keys could not be put in order; trying again", "error", err)
	}
	m.untidy.Store(err != nil || !over)
	return nil
}

// logRotation sees to it that the log holds the rotation that made a record,
// before this worker goes by it: nobody meets a key whose coming the audit does
// not show. The record comes first, because it decides which of two rotations
// is one; the event follows from it, whoever writes it and after whatever
// crash, and stands alone on its subject.
//
// A worker that starts goes by the record all the same: what it did before it
// was stopped is not known, and Run tries again.
func (m *Manager) logRotation(ctx context.Context, r record) error {
	if r.EventID == uuid.Nil || r.Previous == nil || r.EventID == m.logged || m.opt.Stopped() != nil {
		return nil
	}
	err := m.appendRotation(ctx, r)
	switch {
	case err == nil:
		m.logged = r.EventID
	case m.now().KeyID == "":
		m.log.Warn("the rotation of the plane's key is not in the log yet; trying again", "current", r.KeyID, "error", err)
		return nil
	default:
		err = fmt.Errorf("the new key is recorded, and signs once its rotation is in the log: %w", err)
	}
	return err
}

func (m *Manager) appendRotation(ctx context.Context, r record) error {
	e := r.event()
	if there, err := m.holds(ctx, e); there || err != nil {
		return err
	}
	_, _, err := m.opt.Log.Publish(ctx, streams.Append{Event: e, Principal: r.RotatedBy, Correlation: r.CorrelationID, Once: true})
	if errors.Is(err, streams.ErrWrongSequence) {
		// Another worker's, unless that one is on its way still.
		if there, herr := m.holds(ctx, e); there || herr != nil {
			return herr
		}
	}
	if err == nil {
		fault.Pass(fault.KeyLogged)
	}
	return err
}

// holds reports whether the log has a rotation, or had: nothing is signed with a key before
// that is so, and the new key may have signed the origin of a log that was compacted.
func (m *Manager) holds(ctx context.Context, e policy.KeyRotated) (bool, error) {
	there, err := m.opt.Log.Holds(ctx, e)
	if o, compacted := m.opt.Log.Origin(); err == nil && compacted && o.KeyID == e.Key {
		there = true
	}
	return there, err
}

func (m *Manager) signWith(r record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.revision < m.record.revision {
		return nil // known better
	}
	now := time.Now()
	until := r.transition(now)
	if id, expiry := r.lacking(m.held, now); id != "" {
		return &OtherKeyError{Want: id, Have: m.idsLocked(), File: m.opt.Files.Signing, Expiry: expiry}
	}
	next := artifact.Keys{Current: m.held[r.KeyID], Until: until}
	if !until.IsZero() {
		next.Previous = m.held[r.Previous.KeyID]
	}
	m.record = r
	if before, _ := m.ring.Now(); before != next {
		m.ring.Set(next)
		if before.Current != next.Current {
			m.log.Info("the plane signs with another key", "current", r.KeyID, "previous", before.Current.KeyID(), "until", until,
				"principal", r.RotatedBy, "correlation_id", r.CorrelationID)
		}
	}
	return nil
}

// idsLocked are those of the keys that this worker holds, for a caller that
// holds m.mu.
func (m *Manager) idsLocked() []string { return slices.Sorted(maps.Keys(m.held)) }

// endTransition records that a transition is over, before its key is deleted: a clock that
// goes back, or that is not set yet when the plane starts, would have it needed again. Not
// over: the log does not hold the rotation yet, whose event follows from the record.
func (m *Manager) endTransition(ctx context.Context, now time.Time) (over bool, err error) {
	bucket, r := m.kept()
	if r.Previous == nil || !r.transition(now).IsZero() {
		return true, nil
	}
	if r.EventID != m.logged {
		return false, nil
	}
	stands, err := writeRecord(ctx, bucket, r.ended())
	if err != nil {
		return false, fmt.Errorf("record that key %s is not needed any more: %w", r.Previous.KeyID, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if stands.revision > m.record.revision {
		m.record = stands
	}
	return true, nil
}

// keepFiles has Files.Signing hold the current key, and Files.Made the previous
// one until the record says that its transition is over, and nothing else but what this process
// made for a rotation of which it does not know whether it is recorded.
func (m *Manager) keepFiles() error {
	r := m.now()
	if err := m.opt.Files.promote(r.KeyID); err != nil {
		return err
	}
	needed := []string{r.KeyID}
	if r.Previous != nil {
		needed = append(needed, r.Previous.KeyID)
	}
	m.mu.Lock()
	needed = append(needed, slices.DeleteFunc(slices.Clone(m.made), r.used)...)
	maps.DeleteFunc(m.held, func(id string, _ *artifact.Signer) bool { return !slices.Contains(needed, id) })
	m.mu.Unlock()
	return m.opt.Files.prune(needed[1:])
}

// kept is where the record is, and the one that the worker goes by.
func (m *Manager) kept() (Bucket, record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bucket, m.record
}

// now is the record that the worker goes by.
func (m *Manager) now() record {
	_, r := m.kept()
	return r
}

// Trusted are the plane's public keys, as nodes may trust them now, the current
// one first.
func (m *Manager) Trusted() []Key {
	r := m.now()
	all := []Key{r.Key}
	if !r.transition(time.Now()).IsZero() {
		all = append(all, *r.Previous)
	}
	return all
}

// Held is with which key this worker signs, and the ids of all that it holds.
func (m *Manager) Held() (signs string, holds []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ring.Current().KeyID(), m.idsLocked()
}

// lookEvery is how often it is looked whether something is left to be done about
// the keys.
const lookEvery = time.Second

// Run goes by the record as other workers move it, and ends transitions, until
// ctx ends. A worker that lacks the key that the plane signs with now must not
// go on: *OtherKeyError.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.followRecord(ctx) })
	g.Go(func() error { return m.endTransitions(ctx) })
	return g.Wait()
}

// followRecord goes by the record, and opens it again when it was lost.
func (m *Manager) followRecord(ctx context.Context) error {
	again := backoff.Steady(lookEvery)
	for ctx.Err() == nil {
		err := m.Open(ctx)
		if err == nil {
			err = m.watchRecord(ctx)
		}
		if errors.As(err, new(*OtherKeyError)) || ctx.Err() != nil {
			return err
		}
		m.log.Warn("the record of the plane's key cannot be read; trying again", "error", err)
		_ = again.Pause(ctx)
	}
	return nil
}

// watchRecord applies every record that comes.
func (m *Manager) watchRecord(ctx context.Context) error {
	bucket, r := m.kept()
	for entries, err := range bucket.Watch(ctx, r.revision) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Key != RecordKey || e.Gone {
				continue
			}
			r, err := parseRecord(e.Value, e.Revision)
			if err == nil {
				err = m.apply(ctx, r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// endTransitions has the previous key go when the transition of a rotation is
// over.
func (m *Manager) endTransitions(ctx context.Context) error {
	tick := time.NewTicker(min(lookEvery, m.opt.LeastTransition/20))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		r := m.now()
		if k, _ := m.ring.Now(); m.untidy.Load() || k.Previous != nil && r.transition(time.Now()).IsZero() {
			if err := m.apply(ctx, r); errors.As(err, new(*OtherKeyError)) {
				return err
			}
		}
	}
}

package plane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/streams"
)

// keyset are the keys that this worker holds. Which of them the plane signs
// with is its record's to say.
type keyset struct {
	ring *artifact.Keyring

	change sync.Mutex  // one change at a time, files included
	untidy atomic.Bool // the files are not in order

	mu     sync.Mutex // what follows
	held   map[string]*artifact.Signer
	record keyRecord
	bucket *streams.Bucket
}

// OtherKeyError means that the plane signs with a key that this worker does not
// hold.
type OtherKeyError struct {
	Want   string   // key id
	Have   []string // key ids of the worker's
	File   string   // where they came from
	Expiry time.Time
}

// Error names them and says what to do.
func (e *OtherKeyError) Error() string {
	if !e.Expiry.IsZero() {
		return fmt.Sprintf("the plane's key was replaced, and until %s nodes are told so under the one before, %s, and %s holds %s: "+
			"give the worker both, with --signing-key and --next-signing-key", e.Expiry.Format(time.RFC3339), e.Want, e.File, strings.Join(e.Have, " and "))
	}
	return fmt.Sprintf("the plane signs with key %s, and %s holds %s: every worker of a plane needs the same key; "+
		"give --signing-key the file that the other workers have", e.Want, e.File, strings.Join(e.Have, " and "))
}

// keysDir keeps, below the data directory, keys that the plane made and that
// are not, or no longer, the one in signing.key. Each is named by its id.
const keysDir = "keys"

func (p *Plane) keysDir() string { return filepath.Join(p.opt.Data, keysDir) }

func (p *Plane) keyPath(id string) string {
	return filepath.Join(p.keysDir(), strings.TrimPrefix(id, "ed25519:")+".key")
}

// openKeys loads every key that this worker holds.
func (p *Plane) openKeys(context.Context) error {
	path, ours := p.keyFile()
	files := []string{path}
	if p.opt.NextSigningKey != "" {
		files = append(files, p.opt.NextSigningKey)
	}
	load := artifact.LoadSigner
	if ours {
		load = artifact.LoadOrCreateSigner
		more, err := filepath.Glob(filepath.Join(p.keysDir(), "*.key"))
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	p.keys.held = map[string]*artifact.Signer{}
	for _, file := range files {
		s, err := load(file)
		if err != nil {
			return err
		}
		if p.keys.ring == nil {
			p.keys.ring = artifact.NewKeyring(s)
		}
		p.keys.held[s.KeyID()] = s
	}
	return nil
}

// recordKey holds this worker's keys against the plane's record, and makes the
// record where the plane has none yet. Of workers that record different ones at
// the same time one is first, and the other is refused.
func (p *Plane) recordKey(ctx context.Context) error {
	bucket, err := streams.OpenMeta(ctx, p.conn)
	if err != nil {
		return err
	}
	p.keys.mu.Lock()
	known := p.keys.record
	known.revision, p.keys.record.revision, p.keys.bucket = 0, 0, bucket
	p.keys.mu.Unlock()
	r, err := readKey(ctx, bucket)
	if errors.Is(err, streams.ErrNotFound) {
		if known.KeyID == "" {
			known.Key = publicKey(p.keys.ring.Current())
		}
		r, err = writeKey(ctx, bucket, known)
		if errors.Is(err, streams.ErrWrongSequence) {
			err = nil // somebody else was first
		}
	}
	if err != nil {
		return err
	}
	return p.adopt(r)
}

// adopt goes by a record: it signs with the record's key from now on, and keeps
// the files of the keys that are needed. The error is *OtherKeyError.
func (p *Plane) adopt(r keyRecord) error {
	p.keys.change.Lock()
	defer p.keys.change.Unlock()
	return p.adoptHeld(r)
}

// adoptHeld is adopt for who holds the right to change the keys.
func (p *Plane) adoptHeld(r keyRecord) error {
	if err := p.signWith(r); err != nil {
		return err
	}
	if _, ours := p.keyFile(); !ours {
		return nil
	}
	err := p.keepFiles(time.Now())
	if p.keys.untidy.Store(err != nil); err != nil {
		p.log.Warn("the files of the plane's keys could not be put in order; trying again", "error", err)
	}
	return nil
}

func (p *Plane) signWith(r keyRecord) error {
	p.keys.mu.Lock()
	defer p.keys.mu.Unlock()
	if r.revision < p.keys.record.revision {
		return nil // known better
	}
	now := time.Now()
	until := r.transition(now)
	next := artifact.Keys{Current: p.keys.held[r.KeyID], Until: until}
	if next.Current == nil {
		return p.lacks(r.KeyID, time.Time{})
	}
	if !until.IsZero() {
		if next.Previous = p.keys.held[r.Previous.KeyID]; next.Previous == nil {
			return p.lacks(r.Previous.KeyID, until)
		}
	}
	p.keys.record = r
	if before, _ := p.keys.ring.Now(); before != next {
		p.keys.ring.Set(next)
		if before.Current != next.Current {
			p.log.Info("the plane signs with another key", "current", r.KeyID, "previous", before.Current.KeyID(), "until", until,
				"principal", r.RotatedBy, "correlation_id", r.CorrelationID)
		}
	}
	return nil
}

func (p *Plane) lacks(id string, until time.Time) error {
	path, _ := p.keyFile()
	return &OtherKeyError{Want: id, Have: p.keys.ids(), File: path, Expiry: until}
}

// ids are those of the keys that this worker holds, for who holds mu.
func (k *keyset) ids() []string { return slices.Sorted(maps.Keys(k.held)) }

// keepFiles has signing.key hold the current key, and keysDir the previous one
// until its transition ends, and nothing else. A crash between any two steps
// leaves every key that is needed in one of the files, and the next start goes
// on from there.
func (p *Plane) keepFiles(now time.Time) error {
	r := p.keys.now()
	path, _ := p.keyFile()
	if s, err := artifact.LoadSigner(path); err != nil {
		return err
	} else if s.KeyID() != r.KeyID {
		if err := os.Link(path, p.keyPath(s.KeyID())); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("keep the previous key: %w", err)
		}
		if err := artifact.SyncDir(p.keysDir()); err != nil {
			return fmt.Errorf("keep the previous key: %w", err)
		}
		fault.Pass(fault.KeyMove)
		if err := os.Rename(p.keyPath(r.KeyID), path); err != nil {
			return fmt.Errorf("keep the new key: %w", err)
		}
		if err := artifact.SyncDir(p.opt.Data); err != nil {
			return fmt.Errorf("keep the new key: %w", err)
		}
		fault.Pass(fault.KeyMoved)
	}
	needed := r.ids(now)
	p.keys.mu.Lock()
	maps.DeleteFunc(p.keys.held, func(id string, _ *artifact.Signer) bool { return !slices.Contains(needed, id) })
	p.keys.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(p.keysDir(), "*.key"))
	for _, file := range files {
		if !slices.ContainsFunc(needed[1:], func(id string) bool { return p.keyPath(id) == file }) {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

// kept is where the record is, and the one that the worker goes by.
func (k *keyset) kept() (*streams.Bucket, keyRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bucket, k.record
}

// now is the record that the worker goes by.
func (k *keyset) now() keyRecord {
	_, r := k.kept()
	return r
}

// keysNow are the plane's public keys, as nodes may trust them now.
func (p *Plane) keysNow() []resource.Key {
	r := p.keys.now()
	all := []resource.Key{r.Key}
	if !r.transition(time.Now()).IsZero() {
		all = append(all, *r.Previous)
	}
	return all
}

// keyLook is how often it is looked whether something is left to be done about
// the keys.
const keyLook = time.Second

// keepKeys goes by the record as other workers move it, and ends transitions,
// until ctx ends. A worker that lacks the key that the plane signs with now
// must not go on: *OtherKeyError.
func (p *Plane) keepKeys(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.recordKey(ctx)
		if err == nil {
			err = p.watchKey(ctx)
		}
		var other *OtherKeyError
		if errors.As(err, &other) || ctx.Err() != nil {
			return err
		}
		p.log.Warn("the record of the plane's key cannot be read; trying again", "error", err)
		wait(ctx, keyLook)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// watchKey adopts every record that comes.
func (p *Plane) watchKey(ctx context.Context) error {
	bucket, r := p.keys.kept()
	for entries, err := range bucket.Watch(ctx, r.revision) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Key != metaKey || e.Gone {
				continue
			}
			r, err := parseKey(e.Value, e.Revision)
			if err == nil {
				err = p.adopt(r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

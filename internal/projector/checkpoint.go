package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Checkpoint describes a copy of a store at one moment: which log it was folded
// from and how far, and what it holds.
type Checkpoint struct {
	Identity
	Digest
	Chain  [32]byte // chain hash at Digest.Seq
	Before [32]byte // chain hash before the event there
	// Renamed: the log has events that releases before store schema 6 named otherwise, so
	// that its chain has more than one hash.
	Renamed bool
}

// Checkpoint copies the store as it is now into dir, which must not exist, and
// is on the store's own file system: files that never change are linked. The
// fold goes on meanwhile, but for the moment of the copy. A copy that fails
// leaves a directory behind that is not to be used.
//
// The copy holds the kept past of its moment: who opens it stands where this
// store stood, as if it had slept since.
func (p *Projector) Checkpoint(ctx context.Context, dir string) (Checkpoint, error) {
	if !p.roomy() {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", errNoHeadroom)
	}
	// Most of what is in memory goes to disk while the fold goes on.
	if err := p.flush(); err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: flush: %w", err)
	}
	at, digest, err := p.checkpoint(ctx, dir)
	if err != nil {
		return at, fmt.Errorf("checkpoint: %w", err)
	}
	defer digest.snap.Close()
	if at.Digest, err = digest.sum(ctx); err != nil {
		return at, fmt.Errorf("checkpoint: %w", err)
	}
	return at, nil
}

// Copy is Checkpoint for who needs no digest. It returns where the copy stands.
func Copy(p *Projector, dir string) (seq uint64, err error) {
	if !p.roomy() {
		return 0, fmt.Errorf("copy: %w", errNoHeadroom)
	}
	if err := p.flush(); err != nil {
		return 0, fmt.Errorf("copy: flush: %w", err)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.failed != nil {
		return 0, p.failed
	}
	if err := errors.Join(p.flush(), p.db.Checkpoint(dir)); err != nil {
		return 0, fmt.Errorf("copy: %w", err)
	}
	return p.cursor.seq, nil
}

// checkpoint copies and begins a digest of the same moment.
func (p *Projector) checkpoint(ctx context.Context, dir string) (at Checkpoint, d digester, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.failed != nil {
		return at, d, p.failed
	}
	if err := errors.Join(p.flush(), p.db.Checkpoint(dir)); err != nil { // a copy has what is on disk
		return at, d, err
	}
	at.Identity = Identity{Schema: SchemaVersion, Partitions: p.opt.Partitions, Created: logTime(p.cursor.created), Base: p.cursor.base}
	at.Chain, at.Before, at.Renamed = p.cursor.chain, p.cursor.prev, p.cursor.older != nil
	d, err = p.digester(ctx)
	return at, d, err
}

// Position is how far the log is folded, and the chain hash there.
func (m *model) Position() (seq uint64, chain [32]byte) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.cursor.seq, m.cursor.chain
}

// Rehome has the closed store in dir, which opt opens, be that of a log which was created
// at another time and has the same events: it was imported.
func Rehome(dir string, opt Options, created time.Time) error {
	p, err := Open(dir, opt)
	if err != nil {
		return err
	}
	p.cursor.created = created.UnixNano()
	return errors.Join(p.db.Set(cursorKey(), p.cursor.append(nil), pebble.NoSync), p.flush(), p.Close())
}

package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// RefusedError means that a checkpoint is not what its manifest says, or does
// not fit this log or this binary. What it would have restored is gone again;
// an older checkpoint may do, and the log always does.
type RefusedError struct {
	Name string
	Err  error
}

// Error says which, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("checkpoint %s is refused: %v", e.Name, e.Err)
}

// Unwrap is the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Getter reads one event of the log, or gives streams.ErrNotFound.
type Getter interface {
	Get(ctx context.Context, seq uint64) (streams.Message, error)
}

// Restore makes the store in dir, which must not exist or be empty, from a
// checkpoint, and leaves it closed. Everything the manifest says is checked:
// the layout before anything is read, then the object's own hash, the log's
// identity, the sequence, the chain hash, which log must continue, and the
// digest. Whatever fails removes dir. *RefusedError when the checkpoint is at
// fault.
func (c *Checkpoints) Restore(ctx context.Context, m Manifest, log Getter, dir string, opt projector.Options) error {
	err := c.restore(ctx, m, "", log, dir, opt)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNotEmpty) {
		return err
	}
	return &RefusedError{m.Name, err}
}

// restore is Restore, of an object with this SHA-256; "": it is not known.
func (c *Checkpoints) restore(ctx context.Context, m Manifest, sha string, log Getter, dir string, opt projector.Options) error {
	if err := m.fits(opt); err != nil {
		return err
	}
	if err := requireEmpty(dir); err != nil {
		return err
	}
	err := c.download(ctx, m.Name, sha, dir)
	if err == nil {
		err = m.verify(ctx, log, dir, opt.On(c.fs))
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, c.fs.RemoveAll(dir))
}

// fits says why a store of m's could not be opened here.
func (m Manifest) fits(opt projector.Options) error {
	switch {
	case m.Log != logID(opt.Created):
		return fmt.Errorf("it was made of the log created at %s ns, not of this one, %s", m.Log, logID(opt.Created))
	case m.Schema != projector.SchemaVersion:
		return fmt.Errorf("it has store schema %d, this binary reads %d", m.Schema, projector.SchemaVersion)
	case m.Partitions != opt.Partitions:
		return fmt.Errorf("it was made of a log of %d partitions, this one has %d", m.Partitions, opt.Partitions)
	}
	return nil
}

func (c *Checkpoints) download(ctx context.Context, name, sha, dir string) error {
	r, err := c.objects.Get(ctx, name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	whole := &atEnd{r: io.TeeReader(r, sum)}
	err = unpack(c.fs, whole, dir)
	if err == nil && !whole.ended {
		err = errors.New("the object was not read to its end")
	}
	if have := hex.EncodeToString(sum.Sum(nil)); err == nil && sha != "" && have != sha {
		err = fmt.Errorf("its object has SHA-256 %.16s, not %.16s", have, sha)
	}
	return errors.Join(err, r.Close())
}

// atEnd knows whether its reader has come to a good end.
type atEnd struct {
	r     io.Reader
	ended bool
}

func (a *atEnd) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	a.ended = a.ended || errors.Is(err, io.EOF)
	return n, err
}

// verify opens the restored store and holds it against the manifest and the
// log.
func (m Manifest) verify(ctx context.Context, log Getter, dir string, opt projector.Options) error {
	store, err := projector.Open(dir, opt)
	if err != nil {
		return err
	}
	return errors.Join(m.judge(ctx, log, store), store.Close())
}

func (m Manifest) judge(ctx context.Context, log Getter, store *projector.Projector) error {
	seq, chain := store.Position()
	if seq != m.Seq || hex.EncodeToString(chain[:]) != m.Chain {
		return fmt.Errorf("it stands at sequence %d with chain hash %x, not at %d with %s", seq, chain, m.Seq, m.Chain)
	}
	d, err := store.Digest(ctx)
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(d.Sum[:]); sum != m.Digest {
		return fmt.Errorf("its digest is %s, not %s", sum, m.Digest)
	}
	return store.Verify(ctx, log)
}

// BeginFrom restores a checkpoint into dir, which must be empty or new; FoldTo
// takes the read model on from there.
func BeginFrom(ctx context.Context, c *Checkpoints, m Manifest, log interface {
	Log
	Getter
}, dir string, opt projector.Options,
) (*Replayed, error) {
	if err := c.Restore(ctx, m, log, dir, opt); err != nil {
		return nil, err
	}
	return begin(log, dir, opt)
}

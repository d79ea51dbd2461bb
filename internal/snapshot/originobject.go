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

// SelfSigned verifies that a document was signed by the key that it names, and not whose
// key that is: where no plane is at hand that could say so.
func SelfSigned(string) bool { return true }

// OriginObject reads what was folded up to the origin of a log: *streams.DamagedError where that
// is lost. Close it.
func OriginObject(ctx context.Context, conn *streams.Conn, log *streams.Log, o streams.Origin) (io.ReadCloser, error) {
	m, err := OpenOrigin(o.Document, SelfSigned)
	if err != nil {
		return nil, unusable(o, err)
	}
	c, err := OpenOriginStore(ctx, conn, log.Created(), o)
	if err != nil {
		return nil, err
	}
	object, err := c.objects.Get(ctx, m.Name)
	if errors.Is(err, streams.ErrNotFound) {
		err = unusable(o, err)
	}
	return object, err
}

// ProveOrigin reads what was folded up to the origin of a log, without which nothing can be folded
// of it, and holds it against the document: *streams.DamagedError. A log that was not compacted
// needs none.
func ProveOrigin(ctx context.Context, conn *streams.Conn, log *streams.Log) error {
	o, compacted := log.Origin()
	if !compacted {
		return nil
	}
	m, err := OpenOrigin(o.Document, SelfSigned)
	if err != nil {
		return unusable(o, err)
	}
	object, err := OriginObject(ctx, conn, log, o)
	if err != nil {
		return err
	}
	return m.proves(ctx, o, object)
}

// OriginStands says whether what a log begins with that was compacted is there still, without
// reading it: *streams.LostOriginError.
func OriginStands(ctx context.Context, conn *streams.Conn, log *streams.Log) error {
	o, compacted, err := log.RecordedOrigin(ctx)
	if err != nil || !compacted {
		return err
	}
	m, err := OpenOrigin(o.Document, SelfSigned)
	if err != nil {
		return &streams.LostOriginError{Seq: o.Seq, Lost: "the document that its record had"}
	}
	objects, err := streams.OpenObjects(ctx, conn, Store)
	there := false
	if err == nil {
		there, err = objects.Has(ctx, m.Name)
	}
	if there || err != nil && !errors.Is(err, streams.ErrNotFound) {
		return err
	}
	if now, _, err := log.RecordedOrigin(ctx); err != nil || now.Revision != o.Revision {
		return err // the log was compacted meanwhile
	}
	return &streams.LostOriginError{Seq: o.Seq, Lost: "its object " + m.Name + " in the stream OBJ_" + Store}
}

// proves reads the object of an origin to its end, closes it, and holds it against the document.
func (m OriginManifest) proves(ctx context.Context, o streams.Origin, object io.ReadCloser) error {
	h := sha256.New()
	_, err := io.Copy(h, object)
	err = errors.Join(err, object.Close())
	switch {
	case err != nil && ctx.Err() != nil: // whoever reads was stopped
		return err
	case err != nil:
		return unusable(o, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != m.SHA256 {
		return unusable(o, fmt.Errorf("object %s has SHA-256 %.16s, its document says %.16s", m.Name, sum, m.SHA256))
	}
	return nil
}

// PutOrigin stores the object of a log's origin that was imported, and proves it: restored
// into dir, which must not exist and is removed, it is what the document says, and the
// log goes on from it.
func PutOrigin(ctx context.Context, conn *streams.Conn, log *streams.Log, o streams.Origin, object io.Reader, dir string, opt projector.Options) error {
	m, err := OpenOrigin(o.Document, SelfSigned)
	if err != nil {
		return err
	}
	c, err := OpenCheckpoints(ctx, conn, log.Created(), true)
	if err != nil {
		return err
	}
	if _, err := c.objects.Put(ctx, m.Name, object); err != nil {
		return fmt.Errorf("store the origin of the log: %w", err)
	}
	return errors.Join(c.RestoreOrigin(ctx, o, SelfSigned, log, dir, opt), c.fs.RemoveAll(dir))
}

// BeginCarried is BeginFromOrigin of an origin that does not lie on servers, but in an
// archive, from object, which it closes. opt is for the log of the archive.
func BeginCarried(ctx context.Context, o streams.Origin, object io.ReadCloser, log interface {
	Log
	Getter
}, dir string, opt projector.Options,
) (*Replayed, error) {
	c := NewCheckpoints(carried{object: object}, nil, opt.Created)
	err := c.RestoreOrigin(ctx, o, SelfSigned, log, dir, opt)
	if err = errors.Join(err, object.Close()); err != nil {
		return nil, err
	}
	return begin(log, dir, opt)
}

// carried is an object store with the one object that is read.
type carried struct {
	Objects
	object io.Reader
}

// Get implements Objects.
func (c carried) Get(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(c.object), nil
}

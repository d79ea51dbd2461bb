package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// SelfSigned verifies that a document was signed by the key that it names, and not whose
// key that is: where no plane is at hand that could say so.
func SelfSigned(string) bool { return true }

// OriginObject reads what was folded up to the origin of a log. Close it.
func OriginObject(ctx context.Context, conn *streams.Conn, log *streams.Log, o streams.Origin) (io.ReadCloser, error) {
	m, err := OpenOrigin(o.Document, SelfSigned)
	if err != nil {
		return nil, err
	}
	c, err := OpenCheckpoints(ctx, conn, log.Created(), false)
	if err != nil {
		return nil, err
	}
	return c.objects.Get(ctx, m.Name)
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

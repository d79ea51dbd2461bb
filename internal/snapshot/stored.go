package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// checkpointPrefix begins the names of checkpoints' objects.
const checkpointPrefix = "checkpoint-"

// store sends the copy of a read model in dir as an object whose name begins with prefix.
// sha is its SHA-256, 64 hex digits.
func (c *Checkpoints) store(ctx context.Context, at projector.Checkpoint, prefix, dir, worker string) (m Manifest, sha string, err error) {
	m = Manifest{
		Name: fmt.Sprintf("%s%020d-%s", prefix, at.Digest.Seq, uuid.NewString()[:8]),
		Seq:  at.Digest.Seq, Chain: hex.EncodeToString(at.Chain[:]), Digest: hex.EncodeToString(at.Sum[:]), Rows: at.Rows,
		Log: logID(at.Created), Schema: at.Schema, Partitions: at.Partitions,
		Time: time.Now().UTC(), Worker: worker,
	}
	object, sha, err := c.upload(ctx, m.Name, dir)
	m.Bytes = object.Bytes
	return m, sha, err
}

// upload packs and stores at once: the archive is never on the disk. sha is its SHA-256,
// 64 hex digits.
func (c *Checkpoints) upload(ctx context.Context, name, dir string) (object streams.Object, sha string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	sum := sha256.New()
	go func() {
		err := pack(c.fs, dir, io.MultiWriter(sum, w))
		w.CloseWithError(err) // nil: the end
		packed <- err
	}()
	object, err = c.objects.Put(ctx, name, r)
	r.CloseWithError(errors.Join(errors.New("the transfer has ended"), err))
	err = errors.Join(err, <-packed)
	return object, hex.EncodeToString(sum.Sum(nil)), err
}

// remove deletes the objects that are done with.
func (c *Checkpoints) remove(ctx context.Context, done func(streams.Object) bool) error {
	all, err := c.objects.List(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if !done(o) {
			continue
		}
		if err := c.objects.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

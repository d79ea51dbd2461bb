package keyring

import (
	"context"

	"github.com/edictdev/edict/internal/streams"
)

// BucketOn opens the bucket of the plane's record on conn, for Options.Open.
func BucketOn(conn *streams.Conn) func(ctx context.Context) (Bucket, error) {
	return func(ctx context.Context) (Bucket, error) {
		b, err := streams.OpenMeta(ctx, conn)
		if err != nil {
			return nil, err // not a nil bucket in an interface
		}
		return b, nil
	}
}

// Trusted reports which keys are the plane's, or ever were, by its record on conn.
func Trusted(ctx context.Context, conn *streams.Conn) (func(keyID string) bool, error) {
	bucket, err := FoundOn(conn)(ctx)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(ctx, bucket)
	return r.used, err
}

// FoundOn is BucketOn of a bucket that is there: streams.ErrNotFound where the plane
// has none yet.
func FoundOn(conn *streams.Conn) func(ctx context.Context) (Bucket, error) {
	return func(ctx context.Context) (Bucket, error) {
		b, err := streams.FindMeta(ctx, conn)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}

package streams

import (
	"context"
	"fmt"
)

// MetaBucket is the name of the bucket of what all workers of a plane agree on.
const MetaBucket = "EDICT_META"

// OpenMeta opens it, or makes it: OpenBucket.
func OpenMeta(ctx context.Context, c *Conn) (*Bucket, error) {
	return OpenBucket(ctx, c, BucketOptions{Name: MetaBucket, Description: "What all workers of Edict agree on", History: 8})
}

// FindMeta is OpenMeta of a bucket that must be there, and makes none: ErrNotFound.
func FindMeta(ctx context.Context, c *Conn) (*Bucket, error) {
	if _, err := c.streamInfo(ctx, bucketPrefix+MetaBucket); err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", MetaBucket, err)
	}
	return OpenMeta(ctx, c)
}

package streams

import "context"

// MetaBucket is the name of the bucket of what all workers of a plane agree on.
const MetaBucket = "EDICT_META"

// OpenMeta opens it, or makes it: OpenBucket.
func OpenMeta(ctx context.Context, c *Conn) (*Bucket, error) {
	return OpenBucket(ctx, c, BucketOptions{Name: MetaBucket, Description: "What all workers of Edict agree on", History: 8})
}

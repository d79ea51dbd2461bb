package streams

import "context"

// Usage is what a plane takes of its server's JetStream.
type Usage struct {
	Bytes              uint64 // of all streams and buckets, on disk
	Streams, Consumers int
	Errors             uint64 // requests to JetStream that failed
}

// UsageOf asks the server.
func UsageOf(ctx context.Context, c *Conn) (Usage, error) {
	info, err := c.js.AccountInfo(ctx)
	if err != nil {
		return Usage{}, err
	}
	return Usage{Bytes: info.Store, Streams: info.Streams, Consumers: info.Consumers, Errors: info.API.Errors}, nil
}

package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

// Snapshots are the checkpoints of the read model.
type Snapshots struct{ c *Client }

// Create makes a checkpoint of the read model of the worker spoken to.
func (s Snapshots) Create(ctx context.Context) (resource.Snapshot, error) {
	var out resource.Snapshot
	_, err := s.c.do(ctx, request{method: http.MethodPost, path: []string{"v1", "snapshots"}}, &out)
	return out, err
}

// Compact makes an event the origin of the log, and removes all before it. archive is what
// the archive of that is called; "": nobody named one.
func (c *Client) Compact(ctx context.Context, seq uint64, archive string) (resource.LogOrigin, error) {
	var out resource.LogOrigin
	query := url.Values{"seq": {strconv.FormatUint(seq, 10)}}
	if archive != "" {
		query.Set("archive", archive)
	}
	_, err := c.do(ctx, request{method: http.MethodPost, path: []string{"v1", "log:compact"}, query: query}, &out)
	return out, err
}

// List lists the checkpoints of the log, newest first.
func (s Snapshots) List(ctx context.Context) ([]resource.Snapshot, error) {
	return items[resource.Snapshot](ctx, s.c, "v1", "snapshots")
}

package client

import (
	"context"
	"net/http"

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

// List lists the checkpoints of the log, newest first.
func (s Snapshots) List(ctx context.Context) ([]resource.Snapshot, error) {
	return items[resource.Snapshot](ctx, s.c, "v1", "snapshots")
}

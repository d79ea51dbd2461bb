package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// Rollout says how far a policy has come, deleted or not. It lists at most limit
// lagging nodes (0: the server's choice).
func (c *Client) Rollout(ctx context.Context, project, id uuid.UUID, limit int) (resource.Rollout, error) {
	var q url.Values
	if limit > 0 {
		q = url.Values{"limit": {strconv.Itoa(limit)}}
	}
	return get[resource.Rollout](ctx, c, q, policiesPath(project, id.String(), "rollout")...)
}

// ReportApplied reports what a node applied.
func (c *Client) ReportApplied(ctx context.Context, node string, a resource.Applied) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request{
		method: http.MethodPost, path: []string{"v1", "nodes", node, "applied"}, media: "application/json", body: bytes.NewReader(body),
	}, nil)
	return err
}

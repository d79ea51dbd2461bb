package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

// Self says whom the plane takes this client for.
func (c *Client) Self(ctx context.Context) (resource.Self, error) {
	return get[resource.Self](ctx, c, nil, "v1", "access", "self")
}

// Status says how the plane is doing. With digest it reads the whole state.
func (c *Client) Status(ctx context.Context, digest bool) (resource.Status, error) {
	var q url.Values
	if digest {
		q = url.Values{"digest": {"true"}}
	}
	return get[resource.Status](ctx, c, q, "v1", "status")
}

// Rejected lists events that the fold refused, those above the log sequence
// after, at most limit (0: the server's choice).
func (c *Client) Rejected(ctx context.Context, after uint64, limit int) (resource.Page[resource.Rejection], error) {
	return get[resource.Page[resource.Rejection]](ctx, c, above(after, limit), "v1", "rejected")
}

// Audit lists events of the log with who wrote them, those above the log
// sequence after, at most limit (0: the server's choice).
func (c *Client) Audit(ctx context.Context, after uint64, limit int) (resource.Page[resource.AuditEntry], error) {
	return get[resource.Page[resource.AuditEntry]](ctx, c, above(after, limit), "v1", "audit")
}

func above(after uint64, limit int) url.Values {
	q := Page{Limit: limit}.query()
	q.Set("after", strconv.FormatUint(after, 10))
	return q
}

// Live returns nil when the process answers.
func (c *Client) Live(ctx context.Context) error {
	_, err := c.do(ctx, request{method: http.MethodGet, path: []string{"livez"}}, nil)
	return err
}

// Ready runs the worker's checks. One that fails is a *Problem with Checks.
func (c *Client) Ready(ctx context.Context) (resource.Readiness, error) {
	var out resource.Readiness
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: []string{"readyz"}, query: url.Values{"verbose": {"true"}}, once: true,
	}, &out)
	return out, err
}

// Document is the plane's description of its API, in OpenAPI 3.1.
func (c *Client) Document(ctx context.Context) ([]byte, error) {
	return c.raw(ctx, "openapi.json")
}

// Metrics is the worker's page for Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) { return c.raw(ctx, "metrics") }

// raw reads an answer as it is.
func (c *Client) raw(ctx context.Context, path ...string) ([]byte, error) {
	res, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

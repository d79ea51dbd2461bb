package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

func principalPath(more ...string) []string {
	return append([]string{"v1", "access", "principals"}, more...)
}

// Self says whom the plane takes this client for.
func (c *Client) Self(ctx context.Context) (resource.Self, error) {
	return get[resource.Self](ctx, c, nil, "v1", "access", "self")
}

// Principal reads a principal and its relations.
func (c *Client) Principal(ctx context.Context, id string) (resource.Principal, error) {
	return get[resource.Principal](ctx, c, nil, principalPath(id)...)
}

// AllPrincipals walks the principals of the log by id.
func (c *Client) AllPrincipals(ctx context.Context) iter.Seq2[resource.Principal, error] {
	return all(func(at Page) (resource.Page[resource.Principal], error) { return c.Principals(ctx, at) })
}

// Principals reads one page of the principals of the log by id.
func (c *Client) Principals(ctx context.Context, page Page) (resource.Page[resource.Principal], error) {
	return listIn[resource.Principal](ctx, c, page.query(), principalPath()...)
}

// PutPrincipal states a principal, whole, if it still is at version; 0: if there
// is none.
func (c *Client) PutPrincipal(ctx context.Context, id string, doc resource.PrincipalDocument, version uint64, calls ...Call) (resource.Principal, error) {
	condition := ifVersion(version)
	if version == 0 {
		condition = func(r *http.Request) { r.Header.Set("If-None-Match", "*") }
	}
	out, _, err := put[resource.Principal](ctx, c, http.MethodPut, doc, append(calls, condition), principalPath(id)...)
	return out, err
}

// DeletePrincipal removes a principal, its credentials and its relations.
func (c *Client) DeletePrincipal(ctx context.Context, id string, calls ...Call) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: principalPath(id), calls: calls}, nil)
	return err
}

// WriteRelation gives a principal a relation.
func (c *Client) WriteRelation(ctx context.Context, id, relation string, calls ...Call) (resource.Principal, error) {
	out, _, err := put[resource.Principal](ctx, c, http.MethodPost, resource.Relation{Relation: relation}, calls, principalPath(id, "relations")...)
	return out, err
}

// RemoveRelation takes a relation back.
func (c *Client) RemoveRelation(ctx context.Context, id, relation string, calls ...Call) error {
	_, err := c.do(ctx, request{
		method: http.MethodDelete, path: principalPath(id, "relations"), query: url.Values{"relation": {relation}}, calls: calls,
	}, nil)
	return err
}

// Audit lists events of the log with who wrote them, those above the log
// sequence after, at most limit (0: the server's choice).
func (c *Client) Audit(ctx context.Context, after uint64, limit int) (resource.Page[resource.AuditEntry], error) {
	q := Page{Limit: limit}.query()
	q.Set("after", strconv.FormatUint(after, 10))
	return listIn[resource.AuditEntry](ctx, c, q, "v1", "audit")
}

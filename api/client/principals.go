package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/edictdev/edict/api/resource"
)

// Principals are the principals of the log, with their relations.
type Principals struct{ c *Client }

func principalPath(more ...string) []string {
	return append([]string{"v1", "access", "principals"}, more...)
}

// Get reads a principal and its relations.
func (ps Principals) Get(ctx context.Context, id string) (resource.Principal, error) {
	return get[resource.Principal](ctx, ps.c, nil, principalPath(id)...)
}

// All walks the principals of the log by id.
func (ps Principals) All(ctx context.Context) iter.Seq2[resource.Principal, error] {
	return all(func(at Page) (resource.Page[resource.Principal], error) { return ps.List(ctx, at) })
}

// List reads one page of the principals of the log by id.
func (ps Principals) List(ctx context.Context, page Page) (resource.Page[resource.Principal], error) {
	return get[resource.Page[resource.Principal]](ctx, ps.c, page.query(), principalPath()...)
}

// Put states a principal, whole, if it still is at version; 0: if there
// is none.
func (ps Principals) Put(ctx context.Context, id string, doc resource.PrincipalDocument, version uint64, calls ...Call) (resource.Principal, error) {
	condition := ifVersion(version)
	if version == 0 {
		condition = func(r *http.Request) { r.Header.Set("If-None-Match", "*") }
	}
	return put[resource.Principal](ctx, ps.c, http.MethodPut, doc, append(calls, condition), principalPath(id)...)
}

// Delete removes a principal, its credentials and its relations.
func (ps Principals) Delete(ctx context.Context, id string, calls ...Call) error {
	return remove(ctx, ps.c, nil, calls, principalPath(id)...)
}

// WriteRelation gives a principal a relation.
func (ps Principals) WriteRelation(ctx context.Context, id, relation string, calls ...Call) (resource.Principal, error) {
	return put[resource.Principal](ctx, ps.c, http.MethodPost, resource.Relation{Relation: relation}, calls, principalPath(id, "relations")...)
}

// RemoveRelation takes a relation back.
func (ps Principals) RemoveRelation(ctx context.Context, id, relation string, calls ...Call) error {
	return remove(ctx, ps.c, url.Values{"relation": {relation}}, calls, principalPath(id, "relations")...)
}

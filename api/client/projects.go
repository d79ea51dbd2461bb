package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// Projects are those of the plane, with their quotas.
type Projects struct{ c *Client }

// Get reads a project's quota, and what it uses of it.
func (ps Projects) Get(ctx context.Context, id uuid.UUID) (resource.Project, error) {
	return get[resource.Project](ctx, ps.c, nil, "v1", "projects", id.String())
}

// All walks the projects by id.
func (ps Projects) All(ctx context.Context) iter.Seq2[resource.Project, error] {
	return all(func(at Page) (resource.Page[resource.Project], error) { return ps.List(ctx, at) })
}

// List reads one page of the projects by id.
func (ps Projects) List(ctx context.Context, page Page) (resource.Page[resource.Project], error) {
	return get[resource.Page[resource.Project]](ctx, ps.c, page.query(), "v1", "projects")
}

// Archive puts a project away that has no nodes: it takes no events until it is restored.
func (ps Projects) Archive(ctx context.Context, id uuid.UUID, calls ...Call) (resource.Project, error) {
	return ps.change(ctx, id, resource.ProjectChange{Archived: true}, calls)
}

// Restore takes an archived project up again, as it was.
func (ps Projects) Restore(ctx context.Context, id uuid.UUID, calls ...Call) (resource.Project, error) {
	return ps.change(ctx, id, resource.ProjectChange{}, calls)
}

func (ps Projects) change(ctx context.Context, id uuid.UUID, change resource.ProjectChange, calls []Call) (resource.Project, error) {
	return put[resource.Project](ctx, ps.c, http.MethodPatch, change, calls, "v1", "projects", id.String())
}

// SetQuota gives a project a quota, whole; the zero one takes it away.
func (ps Projects) SetQuota(ctx context.Context, id uuid.UUID, q resource.Quota, calls ...Call) (resource.Project, error) {
	return put[resource.Project](ctx, ps.c, http.MethodPut, q, calls, "v1", "projects", id.String(), "quota")
}

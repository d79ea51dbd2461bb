package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// Policies are the policies of projects, with their revisions.
type Policies struct{ c *Client }

func policiesPath(project uuid.UUID, more ...string) []string {
	return append([]string{"v1", "projects", project.String(), "policies"}, more...)
}

// Create publishes a policy with its first revision.
func (ps Policies) Create(ctx context.Context, project uuid.UUID, d resource.Draft, calls ...Call) (resource.Policy, error) {
	return put[resource.Policy](ctx, ps.c, http.MethodPost, d, calls, policiesPath(project)...)
}

// Revise publishes a new revision, or changes nothing when p says what
// is so already.
func (ps Policies) Revise(ctx context.Context, project, id uuid.UUID, p resource.Patch, calls ...Call) (resource.Policy, error) {
	return put[resource.Policy](ctx, ps.c, http.MethodPatch, p, calls, policiesPath(project, id.String())...)
}

// Get reads a policy with its head.
func (ps Policies) Get(ctx context.Context, project, id uuid.UUID) (resource.Policy, error) {
	return get[resource.Policy](ctx, ps.c, nil, policiesPath(project, id.String())...)
}

// GetAt reads a policy as it was at a moment: a log sequence, or a time in RFC 3339.
func (ps Policies) GetAt(ctx context.Context, project, id uuid.UUID, at string) (resource.Policy, error) {
	return get[resource.Policy](ctx, ps.c, url.Values{"at": {at}}, policiesPath(project, id.String())...)
}

// Named reads the policy of a slug with its head; ok: there is one.
func (ps Policies) Named(ctx context.Context, project uuid.UUID, slug string) (p resource.Policy, ok bool, err error) {
	page, err := get[resource.Page[resource.Policy]](ctx, ps.c, url.Values{"slug": {slug}}, policiesPath(project)...)
	for _, p := range page.Items {
		if p.Slug == slug && p.Head != nil {
			return p, true, err
		}
	}
	return p, false, err
}

// List reads one page of a project's policies, without heads, by id.
func (ps Policies) List(ctx context.Context, project uuid.UUID, page Page) (resource.Page[resource.Policy], error) {
	return get[resource.Page[resource.Policy]](ctx, ps.c, page.query(), policiesPath(project)...)
}

// All walks all policies of a project.
func (ps Policies) All(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Policy, error] {
	return all(func(at Page) (resource.Page[resource.Policy], error) { return ps.List(ctx, project, at) })
}

// Delete deletes a policy.
func (ps Policies) Delete(ctx context.Context, project, id uuid.UUID, calls ...Call) error {
	return remove(ctx, ps.c, nil, calls, policiesPath(project, id.String())...)
}

// Revisions reads one page of a policy's revisions, newest first.
func (ps Policies) Revisions(ctx context.Context, project, id uuid.UUID, page Page) (resource.Page[resource.Revision], error) {
	return get[resource.Page[resource.Revision]](ctx, ps.c, page.query(), policiesPath(project, id.String(), "revisions")...)
}

// AllRevisions walks all of them.
func (ps Policies) AllRevisions(ctx context.Context, project, id uuid.UUID) iter.Seq2[resource.Revision, error] {
	return all(func(at Page) (resource.Page[resource.Revision], error) { return ps.Revisions(ctx, project, id, at) })
}

// Revision reads one revision.
func (ps Policies) Revision(ctx context.Context, project, id, revision uuid.UUID) (resource.Revision, error) {
	return get[resource.Revision](ctx, ps.c, nil, policiesPath(project, id.String(), "revisions", revision.String())...)
}

// Diff compares the rules of two revisions of a policy.
func (ps Policies) Diff(ctx context.Context, project, id, from, to uuid.UUID) (resource.Diff, error) {
	q := url.Values{"from_revision": {from.String()}, "to_revision": {to.String()}}
	return get[resource.Diff](ctx, ps.c, q, policiesPath(project, id.String(), "diff")...)
}

// DryRun says what a revision would do, and writes nothing.
func (ps Policies) DryRun(ctx context.Context, project, id uuid.UUID, p resource.Preview) (resource.DryRun, error) {
	return put[resource.DryRun](ctx, ps.c, http.MethodPost, p, nil, policiesPath(project, id.String(), "dry-run")...)
}

// DryRunNew says what a policy that does not exist yet would do, and writes
// nothing.
func (ps Policies) DryRunNew(ctx context.Context, project uuid.UUID, p resource.NewPreview) (resource.DryRun, error) {
	return put[resource.DryRun](ctx, ps.c, http.MethodPost, p, nil, "v1", "projects", project.String(), "policies:dry-run")
}

// Stage keeps a revision beside the head of a policy; no node is sent it.
func (ps Policies) Stage(ctx context.Context, project, id uuid.UUID, p resource.Preview, calls ...Call) (resource.Waves, error) {
	return put[resource.Waves](ctx, ps.c, http.MethodPost, p, calls, policiesPath(project, id.String(), "stage")...)
}

// Promote makes the staged revision the head, at once or in waves.
func (ps Policies) Promote(ctx context.Context, project, id uuid.UUID, p resource.Promotion, calls ...Call) (resource.Waves, error) {
	return put[resource.Waves](ctx, ps.c, http.MethodPost, p, calls, policiesPath(project, id.String(), "promote")...)
}

// OpenWave opens the next wave of a rollout, whatever nodes report.
func (ps Policies) OpenWave(ctx context.Context, project, id uuid.UUID, w resource.NextWave, calls ...Call) (resource.Waves, error) {
	return put[resource.Waves](ctx, ps.c, http.MethodPost, w, calls, policiesPath(project, id.String(), "waves")...)
}

// Abort ends a rollout, or drops what is staged.
func (ps Policies) Abort(ctx context.Context, project, id uuid.UUID, x resource.Abort, calls ...Call) (resource.Waves, error) {
	return put[resource.Waves](ctx, ps.c, http.MethodPost, x, calls, policiesPath(project, id.String(), "abort")...)
}

// Rollout says how far a policy has come, deleted or not. It lists at most limit
// lagging nodes (0: the server's choice).
func (ps Policies) Rollout(ctx context.Context, project, id uuid.UUID, limit int) (resource.Rollout, error) {
	return get[resource.Rollout](ctx, ps.c, Page{Limit: limit}.query(), policiesPath(project, id.String(), "rollout")...)
}

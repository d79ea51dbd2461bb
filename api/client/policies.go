package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

func policiesPath(project uuid.UUID, more ...string) []string {
	return append([]string{"v1", "projects", project.String(), "policies"}, more...)
}

// CreatePolicy publishes a policy with its first revision.
func (c *Client) CreatePolicy(ctx context.Context, project uuid.UUID, d resource.Draft, calls ...Call) (resource.Policy, error) {
	p, _, err := put[resource.Policy](ctx, c, http.MethodPost, d, calls, policiesPath(project)...)
	return p, err
}

// RevisePolicy publishes a new revision, or changes nothing when p says what
// is so already.
func (c *Client) RevisePolicy(ctx context.Context, project, id uuid.UUID, p resource.Patch, calls ...Call) (resource.Policy, error) {
	out, _, err := put[resource.Policy](ctx, c, http.MethodPatch, p, calls, policiesPath(project, id.String())...)
	return out, err
}

// Policy reads a policy with its head.
func (c *Client) Policy(ctx context.Context, project, id uuid.UUID) (resource.Policy, error) {
	return get[resource.Policy](ctx, c, nil, policiesPath(project, id.String())...)
}

// Policies reads one page of a project's policies, without heads, by id.
func (c *Client) Policies(ctx context.Context, project uuid.UUID, page Page) (resource.Page[resource.Policy], error) {
	return listIn[resource.Policy](ctx, c, page.query(), policiesPath(project)...)
}

// AllPolicies walks all of them.
func (c *Client) AllPolicies(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Policy, error] {
	return all(func(at Page) (resource.Page[resource.Policy], error) { return c.Policies(ctx, project, at) })
}

// DeletePolicy deletes a policy.
func (c *Client) DeletePolicy(ctx context.Context, project, id uuid.UUID, calls ...Call) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: policiesPath(project, id.String()), calls: calls}, nil)
	return err
}

// Revisions reads one page of a policy's revisions, newest first.
func (c *Client) Revisions(ctx context.Context, project, id uuid.UUID, page Page) (resource.Page[resource.Revision], error) {
	return listIn[resource.Revision](ctx, c, page.query(), policiesPath(project, id.String(), "revisions")...)
}

// AllRevisions walks all of them.
func (c *Client) AllRevisions(ctx context.Context, project, id uuid.UUID) iter.Seq2[resource.Revision, error] {
	return all(func(at Page) (resource.Page[resource.Revision], error) { return c.Revisions(ctx, project, id, at) })
}

// Revision reads one revision.
func (c *Client) Revision(ctx context.Context, project, id, revision uuid.UUID) (resource.Revision, error) {
	return get[resource.Revision](ctx, c, nil, policiesPath(project, id.String(), "revisions", revision.String())...)
}

// Diff compares the rules of two revisions of a policy.
func (c *Client) Diff(ctx context.Context, project, id, from, to uuid.UUID) (resource.Diff, error) {
	q := url.Values{"from_revision": {from.String()}, "to_revision": {to.String()}}
	return get[resource.Diff](ctx, c, q, policiesPath(project, id.String(), "diff")...)
}

// DryRun says what a revision would do, and writes nothing.
func (c *Client) DryRun(ctx context.Context, project, id uuid.UUID, p resource.Preview) (resource.DryRun, error) {
	out, _, err := put[resource.DryRun](ctx, c, http.MethodPost, p, nil, policiesPath(project, id.String(), "dry-run")...)
	return out, err
}

// DryRunNew says what a policy that does not exist yet would do, and writes
// nothing.
func (c *Client) DryRunNew(ctx context.Context, project uuid.UUID, p resource.Preview) (resource.DryRun, error) {
	out, _, err := put[resource.DryRun](ctx, c, http.MethodPost, p, nil, "v1", "projects", project.String(), "policies:dry-run")
	return out, err
}

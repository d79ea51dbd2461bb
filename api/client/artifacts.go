package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
)

func artifactsPath(project uuid.UUID, more ...string) []string {
	return append([]string{"v1", "projects", project.String(), "artifacts"}, more...)
}

// Release streams lines of any number, a node's whole set of artifacts each, and
// says what became of them, once all are applied.
func (c *Client) Release(ctx context.Context, project uuid.UUID, lines io.Reader, calls ...Call) (resource.BatchResult, error) {
	var out resource.BatchResult
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: []string{"v1", "projects", project.String(), "artifacts:release"},
		media: "application/x-ndjson", body: lines, calls: calls,
	}, &out)
	return out, err
}

// Releases reads one page of what a project released, by node.
func (c *Client) Releases(ctx context.Context, project uuid.UUID, page Page) (resource.Page[resource.Release], error) {
	return listIn[resource.Release](ctx, c, page.query(), artifactsPath(project)...)
}

// AllReleases walks all of them.
func (c *Client) AllReleases(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Release, error] {
	return all(func(at Page) (resource.Page[resource.Release], error) { return c.Releases(ctx, project, at) })
}

// Released reads the artifacts that a project released for a node: what it
// holds, or the newest release whose version is at most version (0: what it
// holds).
func (c *Client) Released(ctx context.Context, project uuid.UUID, node string, version uint64) ([]resource.Artifact, error) {
	var q url.Values
	if version > 0 {
		q = url.Values{"version": {strconv.FormatUint(version, 10)}}
	}
	out, err := get[resource.Items[resource.Artifact]](ctx, c, q, artifactsPath(project, node)...)
	return out.Items, err
}

// WithdrawArtifact takes an artifact from a node.
func (c *Client) WithdrawArtifact(ctx context.Context, project uuid.UUID, node, kind, name string, calls ...Call) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: artifactsPath(project, node, kind, name), calls: calls}, nil)
	return err
}

// Retes lists a project's retes, and whose signatures count for them.
func (c *Client) Retes(ctx context.Context, project uuid.UUID) ([]resource.Rete, error) {
	out, err := get[resource.Items[resource.Rete]](ctx, c, nil, "v1", "projects", project.String(), "retes")
	return out.Items, err
}

// NodeArtifacts lists what a node must hold, by kind and name. A stream opened
// after id misses nothing that items lack.
func (c *Client) NodeArtifacts(ctx context.Context, node string) (items []resource.Artifact, id policy.EventID, err error) {
	var out resource.Items[resource.Artifact]
	res, err := c.do(ctx, request{method: http.MethodGet, path: []string{"v1", "nodes", node, "artifacts"}}, &out)
	if err != nil {
		return nil, 0, err
	}
	id, err = standsAt(res.Header)
	return out.Items, id, err
}

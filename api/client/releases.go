package client

import (
	"context"
	"io"
	"iter"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// Releases are the artifacts that projects released for their nodes.
type Releases struct{ c *Client }

func artifactsPath(project uuid.UUID, more ...string) []string {
	return append([]string{"v1", "projects", project.String(), "artifacts"}, more...)
}

// Create streams lines of any number, a node's whole set of artifacts each, and
// says what became of them, once all are applied.
func (rs Releases) Create(ctx context.Context, project uuid.UUID, lines io.Reader, calls ...Call) (resource.BatchResult, error) {
	return batch(ctx, rs.c, lines, calls, "v1", "projects", project.String(), "artifacts:release")
}

// List reads one page of what a project released, by node.
func (rs Releases) List(ctx context.Context, project uuid.UUID, page Page) (resource.Page[resource.Release], error) {
	return get[resource.Page[resource.Release]](ctx, rs.c, page.query(), artifactsPath(project)...)
}

// All walks all that a project released.
func (rs Releases) All(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Release, error] {
	return all(func(at Page) (resource.Page[resource.Release], error) { return rs.List(ctx, project, at) })
}

// Get reads the artifacts that a project released for a node: what it
// holds, or the newest release whose version is at most version (0: what it
// holds).
func (rs Releases) Get(ctx context.Context, project uuid.UUID, node string, version uint64) ([]resource.Artifact, error) {
	return rs.GetOf(ctx, project, "", node, version)
}

// GetOf is Get of one rete of a node; of the rete "" it is Get.
func (rs Releases) GetOf(ctx context.Context, project uuid.UUID, rete, node string, version uint64) ([]resource.Artifact, error) {
	q := reteQuery(rete)
	if version > 0 {
		q.Set("version", strconv.FormatUint(version, 10))
	}
	out, err := get[resource.Items[resource.Artifact]](ctx, rs.c, q, artifactsPath(project, node)...)
	return out.Items, err
}

func reteQuery(rete string) url.Values {
	q := url.Values{}
	if rete != "" {
		q.Set("rete", rete)
	}
	return q
}

// Withdraw takes an artifact of its first rete from a node.
func (rs Releases) Withdraw(ctx context.Context, project uuid.UUID, node, kind, name string, calls ...Call) error {
	return rs.WithdrawOf(ctx, project, "", node, kind, name, calls...)
}

// WithdrawOf takes an artifact of one rete from a node; of the rete "" it is Withdraw.
func (rs Releases) WithdrawOf(ctx context.Context, project uuid.UUID, rete, node, kind, name string, calls ...Call) error {
	return remove(ctx, rs.c, reteQuery(rete), calls, artifactsPath(project, node, kind, name)...)
}

// Retes lists a project's retes, and whose signatures count for them.
func (rs Releases) Retes(ctx context.Context, project uuid.UUID) ([]resource.Rete, error) {
	return items[resource.Rete](ctx, rs.c, "v1", "projects", project.String(), "retes")
}

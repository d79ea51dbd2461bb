package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// ReportQuery says which nodes are meant. The zero value means all of the plane.
type ReportQuery struct {
	Project  uuid.UUID // uuid.Nil: of any, which needs plane#read
	Selector string    // of labels; empty: all
	States   []string  // where they stand: applied, lagging, refused, silent; none: all
}

func (q ReportQuery) path(last string) []string {
	if q.Project == uuid.Nil {
		return []string{"v1", last}
	}
	return []string{"v1", "projects", q.Project.String(), last}
}

// Reported reads one page of nodes by id, each with what it reported last.
func (ns Nodes) Reported(ctx context.Context, q ReportQuery, page Page) (resource.Page[resource.Node], error) {
	params := page.query()
	if q.Selector != "" {
		params.Set("label_selector", q.Selector)
	}
	switch {
	case len(q.States) > 0:
		params.Set("state", strings.Join(q.States, ","))
	case q.Project != uuid.Nil:
		params.Set("report", "true")
	}
	return get[resource.Page[resource.Node]](ctx, ns.c, params, q.path("nodes")...)
}

// AllReported walks all of these nodes.
func (ns Nodes) AllReported(ctx context.Context, q ReportQuery) iter.Seq2[resource.Node, error] {
	return all(func(at Page) (resource.Page[resource.Node], error) { return ns.Reported(ctx, q, at) })
}

// Report reads a node's facts, and what it reported last.
func (ns Nodes) Report(ctx context.Context, project uuid.UUID, id string) (resource.Node, error) {
	return get[resource.Node](ctx, ns.c, url.Values{"report": {"true"}}, nodesPath(project, id)...)
}

// Count counts nodes by where they stand, whatever q.States says, and with a label's key
// by its value as well: at most limit values (0: the server's choice).
func (ns Nodes) Count(ctx context.Context, q ReportQuery, by string, limit int) (resource.NodeCounts, error) {
	params := url.Values{}
	for name, value := range map[string]string{"label_selector": q.Selector, "by": by} {
		if value != "" {
			params.Set(name, value)
		}
	}
	if limit > 0 {
		params.Set("limit", strconv.Itoa(limit))
	}
	return get[resource.NodeCounts](ctx, ns.c, params, q.path("nodes:summary")...)
}

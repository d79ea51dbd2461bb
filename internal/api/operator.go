package api

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

func operatorRoutes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/status", ID: "getStatus", Tag: "plane", Needs: access.ReadPlane, early: true,
			Summary:  "Say how the plane is doing, as this worker sees it",
			Params:   []Param{queryFlag("digest", "Add the digest of the state at applied; this reads all of it."), laggingParam},
			Answers:  jsonAnswer(http.StatusOK, resource.Status{}),
			Problems: []string{CodeLogUnavailable},
			serve:    (*plane).getStatus,
		},
		{
			Method: http.MethodGet, Pattern: "/v1/rejected", ID: "listRejected", Tag: "plane", Needs: access.ReadPlane,
			Summary: "List the events that the fold rejected, by log sequence",
			Params: []Param{
				limitParam,
				querySeq("after", "Those above this log sequence; next_cursor is one."),
			},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Rejection]{}),
			serve:   (*plane).listRejected,
		},
	}
}

func (p *plane) getStatus(c *call) error {
	digest, err := c.queryFlag("digest")
	if err != nil {
		return err
	}
	limit, err := c.limitOf(defaultLagging, maxLagging)
	if err != nil {
		return err
	}
	log, err := p.Log.State(c.r.Context())
	if err != nil {
		return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log's head cannot be read: %v", err)
	}
	out := resource.Status{
		Log:        resource.LogStatus{Created: p.Log.Created().UTC(), Bytes: log.Bytes},
		Durability: p.Durability(),
	}
	if p.LogURL != nil {
		out.Log.NATS = p.LogURL()
	}
	var counts projector.Counts
	p.Model.Read(func(v *projector.View) {
		out.Applied = v.Seq()
		counts = v.Counts()
	})
	out.Rejected, out.Nodes = counts.Rejected, counts.Nodes
	out.Identities, out.Policies = counts.Identities, counts.Policies
	if digest {
		d, err := p.Model.Digest(c.r.Context())
		if err != nil {
			return err
		}
		out.Applied, out.Digest = d.Seq, hex.EncodeToString(d.Sum[:])
	}
	out.Head = max(log.Last, out.Applied) // the fold may have passed the head since it was read
	p.Metrics.sawHead(out.Head)
	out.Partitions = []resource.Partition{}
	if p.Partitions != nil {
		if out.Partitions, err = p.Partitions(); err != nil {
			return err
		}
	}
	if p.Past != nil {
		past := p.Past()
		out.Past = resource.Past{From: past.From, Records: past.Records, Bytes: past.Bytes, Dropped: past.Dropped}
	}
	if out.Convergence, err = p.convergence(c.r.Context(), limit); err != nil {
		return err
	}
	out.Workers, out.Shares = p.workers(out), p.shares()
	return c.json(http.StatusOK, out)
}

func (p *plane) workers(s resource.Status) []resource.Worker {
	if p.Workers != nil {
		if list := p.Workers(s.Head); len(list) > 0 {
			return list
		}
	}
	return []resource.Worker{{Name: p.Name, Applied: s.Applied, Lag: s.Head - s.Applied}}
}

func (p *plane) listRejected(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	after, err := c.queryUint("after", 0)
	if err != nil {
		return err
	}
	items, err := p.Model.Rejections(after, limit+1)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, pageBySeq(items, limit, func(r streams.Rejection) uint64 { return r.Seq }, showRejection))
}

// pageBySeq makes a page of up to limit items out of at most limit+1. Its cursor
// is the log sequence of its last item.
func pageBySeq[S, T any](items []S, limit int, seq func(S) uint64, show func(S) T) resource.Page[T] {
	page := resource.Page[T]{Items: make([]T, 0, len(items))}
	if len(items) > limit {
		items = items[:limit]
		next := strconv.FormatUint(seq(items[limit-1]), 10)
		page.NextCursor = &next
	}
	for _, it := range items {
		page.Items = append(page.Items, show(it))
	}
	return page
}

func showRejection(r streams.Rejection) resource.Rejection {
	out := resource.Rejection{
		Seq: r.Seq, Subject: r.Subject, EventID: r.EventID, Type: r.Type,
		Code: r.Code, Detail: r.Detail, Time: r.Time.UTC(),
	}
	if len(r.Violations) > 0 {
		out.Violations = faultsOf(r.Violations)
	}
	return out
}

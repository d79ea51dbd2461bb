package api

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// statusHandlers say how the plane is doing.
type statusHandlers struct {
	StatusDeps
	log interface {
		State(ctx context.Context) (streams.State, error)
		Created() time.Time
	}
	model interface {
		views
		rejections
		Digest(ctx context.Context) (projector.Digest, error)
	}
	quota       *quota
	convergence Convergence
	metrics     *Metrics
}

func (h *statusHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/status", ID: "getStatus", Tag: "plane", Needs: access.ReadPlane, early: true,
			Summary:  "Show how the plane is doing, as this worker sees it",
			Params:   []Param{queryFlag("digest", "Add the digest of the state at applied; this reads all of it."), laggingParam},
			Answers:  jsonAnswer(http.StatusOK, resource.Status{}),
			Problems: []string{CodeLogUnavailable},
			serve:    h.status,
		},
		{
			Method: http.MethodGet, Pattern: "/v1/rejected", ID: "listRejected", Tag: "plane", Needs: access.ReadPlane,
			Summary: "List the events that the fold rejected, by log sequence",
			Params: []Param{
				limitParam,
				querySeq("after", "Those above this log sequence; next_cursor is one."),
			},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Rejection]{}),
			serve:   h.rejected,
		},
	}
}

func (h *statusHandlers) status(c *call) error {
	digest, err := c.queryFlag("digest")
	if err != nil {
		return err
	}
	limit, err := c.limitOf(defaultLagging, maxLagging)
	if err != nil {
		return err
	}
	log, err := h.log.State(c.r.Context())
	if err != nil {
		return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log's head cannot be read: %v", err)
	}
	out, err := h.folded(c.r.Context(), digest)
	if err != nil {
		return err
	}
	out.Log.Bytes = log.Bytes
	h.growth(log).show(&out.Log)
	out.Head = max(log.Last, out.Applied) // the fold may have passed the head since it was read
	h.metrics.sawHead(out.Head)
	out.Workers = h.workers(out) // before the partitions: each publishes after it folds
	out.Partitions = []resource.Partition{}
	if h.Partitions != nil {
		if out.Partitions, err = h.Partitions(); err != nil {
			return err
		}
	}
	if h.Past != nil {
		past := h.Past()
		out.Past = resource.Past{From: past.From, Records: past.Records, Bytes: past.Bytes, Dropped: past.Dropped}
	}
	if out.Convergence, err = h.fleet(c.r.Context(), limit); err != nil {
		return err
	}
	out.Shares = h.quota.shares()
	return c.json(http.StatusOK, out)
}

// folded is what the fold of this worker knows of the plane, and its log.
func (h *statusHandlers) folded(ctx context.Context, digest bool) (out resource.Status, err error) {
	out.Log.Created, out.Durability = h.log.Created().UTC(), h.Durability()
	if h.LogURL != nil {
		out.Log.NATS = h.LogURL()
	}
	if h.Origin != nil {
		if o, ok := h.Origin(); ok {
			out.Log.Begins, out.Log.Archive = o.Seq, o.Archive
		}
	}
	var counts projector.Counts
	h.model.Read(func(v *projector.View) {
		out.Applied = v.Seq()
		counts = v.Counts()
	})
	out.Rejected, out.Nodes = counts.Rejected, counts.Nodes
	out.Identities, out.Policies = counts.Identities, counts.Policies
	if digest {
		d, err := h.model.Digest(ctx)
		if err != nil {
			return out, err
		}
		out.Applied, out.Digest = d.Seq, hex.EncodeToString(d.Sum[:])
	}
	return out, nil
}

func (h *statusHandlers) workers(s resource.Status) []resource.Worker {
	if h.Workers != nil {
		if list := h.Workers(s.Head); len(list) > 0 {
			return list
		}
	}
	return []resource.Worker{{Name: h.Name, Applied: s.Applied, Lag: s.Head - s.Applied}}
}

func (h *statusHandlers) rejected(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	after, err := c.queryUint("after", 0)
	if err != nil {
		return err
	}
	items, err := h.model.Rejections(after, limit+1)
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

// fleet is how far all nodes have come; nil while nobody knows.
func (h *statusHandlers) fleet(ctx context.Context, limit int) (*resource.Convergence, error) {
	if h.convergence == nil {
		return nil, nil
	}
	f, err := h.convergence.Fleet(ctx, limit)
	var early *convergence.NotReadyError
	if errors.As(err, &early) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &resource.Convergence{
		Desired: f.Desired, Applied: f.Applied, Reported: f.Reported, ByState: new(showCounts(f.States)), Lagging: showLagging(f.Lagging), NotApplied: showNotApplied(f.NotApplied),
	}, nil
}

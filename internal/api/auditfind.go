package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/wire"
)

// auditParams are those of a list of the audit.
func auditParams() []Param {
	moment := func(name, summary string) Param {
		return Param{Name: name, In: "query", Summary: summary, Schema: &openapi.Schema{Type: "string", Format: "date-time"}}
	}
	return []Param{
		limitParam,
		{Name: "order", In: "query", Summary: "Oldest first, or newest first.", Schema: &openapi.Schema{Type: "string", Enum: openapi.OneOfTexts(oldestFirst, newestFirst), Default: oldestFirst}},
		querySeq("after", "Those above this log sequence; oldest first, next_cursor is one."),
		querySeq("before", "Those below this log sequence; newest first, next_cursor is one."),
		moment("since", "Those that were stored after this moment."),
		moment("until", "Those that were stored at this moment or before."),
		queryText("principal", "Those that this principal caused, as far as the plane knows; what others claim does not count."),
		eventTypeParam(),
	}
}

const oldestFirst, newestFirst = "asc", "desc"

func (h *auditHandlers) routes() []Route {
	all := Route{
		Method: http.MethodGet, Pattern: "/v1/audit", ID: "listAudit", Tag: tagAccess, Needs: access.ReadPlane, early: true,
		Summary: "List the events of the log with who wrote them. A page may have fewer than limit, or none, and a next_cursor: so far nothing else was found",
		Params:  append(auditParams(), queryText("project", "Only those of the project of this id.")),
		Answers: jsonAnswer(http.StatusOK, resource.Page[resource.AuditEntry]{}), Problems: []string{CodeLogUnavailable, CodeLogCompacted},
		serve: h.list,
	}
	of := all
	of.Pattern, of.ID, of.Needs, of.early = "/v1/projects/{project}/audit", "listProjectAudit", access.SeeProject, false
	of.Summary, of.Params = "List the events of a project with who wrote them, likewise", auditParams()
	return []Route{all, of}
}

// auditQuery is which events are asked for: those between two log sequences, which are not
// among them.
type auditQuery struct {
	after, before   uint64
	newest          bool
	limit           int
	principal, kind string    // empty: of any
	project         uuid.UUID // uuid.Nil: of any
}

// all reports whether every event between the two is asked for.
func (q auditQuery) all() bool { return q.principal == "" && q.kind == "" && q.project == uuid.Nil }

func (q auditQuery) has(e resource.AuditEntry) bool {
	if q.project != uuid.Nil {
		if about, ok := wire.ParseSubject(e.Subject); !ok || about.Project != q.project {
			return false
		}
	}
	return (q.principal == "" || q.principal == e.Principal) && (q.kind == "" || q.kind == e.Type)
}

// query reads what is asked for. before is above the log's end when nothing bounds it.
func (h *auditHandlers) query(c *call) (q auditQuery, err error) {
	if q.limit, err = c.limit(); err != nil {
		return q, err
	}
	if q.after, err = c.queryUint("after", 0); err != nil {
		return q, err
	}
	if q.before, err = c.queryUint("before", 0); err != nil {
		return q, err
	}
	params := c.r.URL.Query()
	switch order := params.Get("order"); order {
	case "", oldestFirst:
	case newestFirst:
		q.newest = true
	default:
		return q, broken(http.StatusBadRequest, CodeBadParameter, "/order", "%.40q is no order; there are %s and %s", order, oldestFirst, newestFirst)
	}
	q.principal = params.Get("principal")
	if q.kind, err = eventType(c); err != nil {
		return q, err
	}
	if q.project, err = anyProject(c); err != nil {
		return q, err
	}
	return q, h.bound(c, &q)
}

// bound narrows a query by the moments that it names, and by the log's ends.
func (h *auditHandlers) bound(c *call, q *auditQuery) error {
	for _, name := range []string{"since", "until"} {
		if !c.r.URL.Query().Has(name) {
			continue
		}
		at, err := c.queryTime(name)
		if err != nil {
			return err
		}
		if h.seqAt == nil {
			return unreadLog()
		}
		seq, err := h.seqAt(c.r.Context(), at)
		switch {
		case err != nil:
			return unreadableLog(err)
		case name == "since":
			q.after = max(q.after, seq)
		case q.before == 0 || seq < q.before:
			q.before = seq + 1
		}
	}
	if h.trail == nil {
		return unreadLog()
	}
	log, err := h.log.State(c.r.Context())
	if err != nil {
		return unreadableLog(err)
	}
	if q.before == 0 || q.before > log.Last {
		q.before = log.Last + 1
	}
	if q.newest { // oldest first, the log says what it has not any more
		q.after = max(q.after, max(log.First, 1)-1)
	}
	return nil
}

// Bounds of one answer: events that are read at once, and in all, where only some are
// asked for.
const (
	auditWindow = 2000
	maxAudited  = 10 * auditWindow // unless Deps say otherwise
)

// maxSearching is how many windows are read at once of answers that have some of the events
// alone, which may look through many for nothing: others have the machine, too. Who searches
// waits at each window anew, so that a short search waits for no long one.
const maxSearching = 2

// list goes to the log itself: nothing between it and the answer could leave
// an event out.
func (h *auditHandlers) list(c *call) error {
	q, err := h.query(c)
	if err != nil {
		return err
	}
	found, next, err := h.find(c.r.Context(), q)
	if err != nil {
		return err
	}
	page := resource.Page[resource.AuditEntry]{Items: found}
	if next != 0 {
		cursor := strconv.FormatUint(next, 10)
		page.NextCursor = &cursor
	}
	return c.json(http.StatusOK, page)
}

// find looks for events until it has a page of them, has looked at many, or at all. next is
// what the next page begins behind; 0: there is none.
func (h *auditHandlers) find(ctx context.Context, q auditQuery) (found []resource.AuditEntry, next uint64, err error) {
	found = []resource.AuditEntry{}
	window := uint64(auditWindow)
	if q.all() {
		window = uint64(q.limit) + 1
	}
	if q.after+1 >= q.before && !q.newest { // the log may say that it was compacted
		if _, err := h.trail(ctx, q.after, 1); err != nil {
			return nil, 0, unreadableLog(err)
		}
	}
	for looked := uint64(0); q.after+1 < q.before; looked += window {
		if looked >= uint64(h.looked) {
			return found, q.next(), nil
		}
		from := q.after
		if q.newest {
			from = max(q.after, q.before-1-min(window, q.before-1))
		}
		part, err := h.window(ctx, from, int(window), &q)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range part {
			if !q.has(e) {
				continue
			}
			if len(found) == q.limit {
				return found, found[q.limit-1].Seq, nil
			}
			found = append(found, e)
		}
	}
	return found, 0, nil
}

// next is where a query goes on whose part up to here was looked at.
func (q auditQuery) next() uint64 {
	if q.newest {
		return q.before
	}
	return q.after
}

// window reads up to n events above a sequence, in the order that is asked for, and takes
// them out of the query.
func (h *auditHandlers) window(ctx context.Context, from uint64, n int, q *auditQuery) ([]resource.AuditEntry, error) {
	if !q.all() {
		if err := h.searching.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer h.searching.Release(1)
	}
	items, err := h.trail(ctx, from, n)
	if err != nil {
		return nil, unreadableLog(err)
	}
	refused, err := h.refusedAmong(items)
	if err != nil {
		return nil, err
	}
	var out []resource.AuditEntry
	for _, m := range items {
		if m.Seq < q.before {
			out = append(out, h.entry(m, refused[m.Seq]))
		}
	}
	switch {
	case q.newest:
		slices.Reverse(out)
		q.before = from + 1
	case len(out) < n:
		q.after = q.before // there is no more
	default:
		q.after = out[n-1].Seq
	}
	return out, nil
}

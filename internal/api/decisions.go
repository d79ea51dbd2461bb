package api

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/streams"
)

// DecisionLog is the log of what admission policies decided; *streams.Decisions is one.
type DecisionLog interface {
	State(ctx context.Context) (streams.State, error)
	// Read yields those from one sequence to another, oldest first.
	Read(ctx context.Context, from, to uint64) iter.Seq2[[]streams.Message, error]
	// Follow yields those from a sequence on, and those that come, until ctx ends.
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}

// decisionHandlers serve the decision log.
type decisionHandlers struct {
	log  DecisionLog // nil: this worker keeps none
	auth *authorizer
	feed decisionFeed

	registry *admission.Registry
	event    func(ctx context.Context, seq uint64) (streams.Message, error) // of the log; nil: nobody reads it

	looked, pageBytes int // of a page, at most
}

const cursorDecisions = "d"

// Decisions are read from the newest to older ones, so many at a time, and at most so
// many for one page: a filter that lets hardly anything pass must not read a gigabyte.
const (
	decisionsAtOnce = 500
	decisionsAPage  = 10_000 // unless Deps say otherwise
	// Likewise, as JSON, in the log. A page has one decision more than that at most.
	decisionsPageBytes = 8 << 20
)

func (h *decisionHandlers) routes() []Route {
	filters, times := decisionFilters(), decisionTimes()
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/api/v1/decisions", ID: "listDecisions", Tag: "admission", Needs: access.SeeAdmission, early: true,
			Summary: "List what admission policies decided, newest first. Tenants' administrators and users see their own. A page may have fewer decisions than it could, or none, and others follow all the same",
			Params:  append(append([]Param{limitParam, cursorParam}, filters...), times...),
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Decision]{}), Problems: []string{CodeBadCursor, CodeNoDecisionLog, CodeLogUnavailable}, serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: "/api/v1/decisions/events", ID: "followDecisions", Tag: "admission", Needs: access.SeeAdmission, early: true,
			Summary:  "Follow what admission policies decide, from now on or after an id",
			Params:   append([]Param{headerText("Last-Event-ID", "The seq of the last decision that was read.")}, filters...),
			Answers:  []Answer{{Status: http.StatusOK, MediaType: mediaSSE, Body: eitherOf{resource.Decision{}}}},
			Problems: []string{CodeBadLastEventID, CodeBadParameter, CodeNoDecisionLog, CodeLogUnavailable}, serve: h.follow, byRelations: true,
		},
		{
			Method: http.MethodGet, Pattern: "/api/v1/decisions/{seq}/explanation", ID: "explainDecision", Tag: "admission", Needs: access.Evaluate,
			Summary: "Explain a decision: what the policies that judged it say of its request as they were then, and what the present ones say. Nothing is decided, and nothing written",
			Answers: jsonAnswer(http.StatusOK, resource.DecisionExplanation{}), Problems: readProblems(CodeDecisionNotFound, CodeNoDecisionLog, CodeTooManyAtOnce), serve: h.explain,
		},
	}
}

func (h *decisionHandlers) list(c *call) error {
	limit, below, err := c.pageOf(cursorDecisions)
	if err != nil {
		return err
	}
	next := uint64(math.MaxUint64)
	if below != "" {
		if next, err = strconv.ParseUint(below, 10, 64); err != nil {
			return badCursor()
		}
	}
	w, err := c.wantedDecisions()
	if err != nil {
		return err
	}
	first, last, err := h.extent(c)
	if err != nil {
		return err
	}
	page := resource.Page[resource.Decision]{}
	if page.Items, next, err = h.newest(c, w, first, min(next, last+1), limit); err != nil {
		return err
	}
	if next > first {
		text := nextOf(cursorDecisions, strconv.FormatUint(next, 10))
		page.NextCursor = &text
	}
	return c.json(http.StatusOK, page)
}

// newest are the newest decisions below a sequence, as many as a page has room for. What
// is above next was looked at.
func (h *decisionHandlers) newest(c *call, w wanted, first, below uint64, limit int) (items []resource.Decision, next uint64, err error) {
	items, next = []resource.Decision{}, below
	left := room{limit, h.pageBytes}
	for read := 0; next > first && left.decisions > 0 && left.bytes > 0 && read < h.looked; read += decisionsAtOnce {
		p, err := h.piece(c, w, max(first, next-min(next, decisionsAtOnce)), next-1, left)
		if err != nil {
			return nil, 0, err
		}
		for _, d := range slices.Backward(p.found) {
			items = append(items, d.Decision)
			left.decisions--
			left.bytes -= d.bytes
		}
		switch next = p.from; {
		case p.full:
			return items, next, nil
		case p.old:
			next = first // older ones are older still
		}
	}
	return items, next, nil
}

// room is what a page has room for.
type room struct{ decisions, bytes int }

// piece is a part of the log, as far as it is wanted.
type piece struct {
	found []*keptDecision // oldest first
	from  uint64          // none below it was looked at
	full  bool            // there was no room for older ones
	old   bool            // some are older than whoever asks wants to know
}

// piece reads the log from one sequence to another. It holds no more than there is room
// for, but for one decision: a page of large ones must not cost a gigabyte.
func (h *decisionHandlers) piece(c *call, w wanted, from, to uint64, left room) (p piece, err error) {
	p.from = from
	bytes := 0
	for batch, err := range h.log.Read(c.r.Context(), from, to) {
		if err != nil {
			return p, unreadableDecisions(err)
		}
		for _, m := range batch {
			d, ok := decisionOf(m)
			if !ok {
				continue
			}
			p.old = p.old || !w.since.IsZero() && d.Time.Add(skew).Before(w.since)
			if d, ok = w.shown(c.who, d); ok {
				p.found = append(p.found, &keptDecision{d, len(m.Body)})
				bytes += len(m.Body)
			}
			for len(p.found) > left.decisions || len(p.found) > 1 && bytes > left.bytes {
				bytes -= p.found[0].bytes
				p.found, p.full = slices.Delete(p.found, 0, 1), true
			}
		}
	}
	if p.full {
		p.from = p.found[0].Seq
	}
	return p, c.r.Context().Err()
}

// skew is how far decisions may stand behind others in the log that are newer, for
// the clocks of workers and the time that writing takes.
const skew = time.Minute

// extent is the first and the last sequence of the log.
func (h *decisionHandlers) extent(c *call) (first, last uint64, err error) {
	if h.log == nil {
		return 0, 0, problem(http.StatusNotFound, CodeNoDecisionLog, "this worker keeps no decisions: start it with --decision-log")
	}
	state, err := h.log.State(c.r.Context())
	if err != nil {
		return 0, 0, unreadableDecisions(err)
	}
	return max(state.First, 1), state.Last, nil
}

func unreadableDecisions(err error) error {
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the decision log cannot be read: %v", err)
}

// decisionOf reads a decision; false: it is of a newer worker, or of nobody of ours.
func decisionOf(m streams.Message) (d resource.Decision, ok bool) {
	ok = json.Unmarshal(m.Body, &d) == nil
	d.Seq = m.Seq
	return d, ok
}

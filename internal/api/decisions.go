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
}

const cursorDecisions = "d"

// Decisions are read from the newest to older ones, so many at a time, and at most so
// many for one page: a filter that lets hardly anything pass must not read a gigabyte.
const (
	decisionsAtOnce = 500
	decisionsAPage  = 10_000
)

func (h *decisionHandlers) routes() []Route {
	filters, times := decisionFilters(), decisionTimes()
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/api/v1/decisions", ID: "listDecisions", Tag: "admission", Needs: access.SeeAdmission, early: true,
			Summary: "List what admission policies decided, newest first. Tenants' administrators and users see their own. A page may have fewer decisions than it could, or none, and others follow all the same",
			Params:  append(append([]Param{limitParam, cursorParam}, filters...), times...),
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Decision]{}), Problems: []string{CodeBadCursor, CodeLogUnavailable}, serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: "/api/v1/decisions/events", ID: "followDecisions", Tag: "admission", Needs: access.SeeAdmission, early: true,
			Summary:  "Follow what admission policies decide, from now on or after an id",
			Params:   append([]Param{headerText("Last-Event-ID", "The seq of the last decision that was read.")}, filters...),
			Answers:  []Answer{{Status: http.StatusOK, MediaType: mediaSSE, Body: eitherOf{resource.Decision{}}}},
			Problems: []string{CodeBadLastEventID, CodeLogUnavailable}, serve: h.follow,
		},
		{
			Method: http.MethodGet, Pattern: "/api/v1/decisions/{seq}/explanation", ID: "explainDecision", Tag: "admission", Needs: access.Evaluate,
			Summary: "Explain a decision: what the policies that judged it say of its request as they were then, and what the present ones say. Nothing is decided, and nothing written",
			Answers: jsonAnswer(http.StatusOK, resource.DecisionExplanation{}), Problems: readProblems(CodeDecisionNotFound, CodeTooManyAtOnce), serve: h.explain,
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
	page := resource.Page[resource.Decision]{Items: []resource.Decision{}}
	next = min(next, last+1)
	for read := 0; next > first && len(page.Items) < limit && read < decisionsAPage; read += decisionsAtOnce {
		from := max(first, next-min(next, decisionsAtOnce))
		found, err := h.between(c, from, next-1)
		if err != nil {
			return err
		}
		next = from
		for _, d := range slices.Backward(found) {
			if len(page.Items) == limit {
				next = page.Items[limit-1].Seq
				break
			}
			if !w.since.IsZero() && d.Time.Add(skew).Before(w.since) {
				next = first // older ones are older still
				break
			}
			if d, ok := w.shown(c.who, d); ok {
				page.Items = append(page.Items, d)
			}
		}
	}
	if next > first {
		text := nextOf(cursorDecisions, strconv.FormatUint(next, 10))
		page.NextCursor = &text
	}
	return c.json(http.StatusOK, page)
}

// skew is how far decisions may stand behind others in the log that are newer, for
// the clocks of workers and the time that writing takes.
const skew = time.Minute

// extent is the first and the last sequence of the log.
func (h *decisionHandlers) extent(c *call) (first, last uint64, err error) {
	if h.log == nil {
		return 0, 0, problem(http.StatusServiceUnavailable, CodeLogUnavailable, "this worker keeps no decisions: start it with --decision-log")
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

// between reads the decisions from one sequence to another, oldest first.
func (h *decisionHandlers) between(c *call, from, to uint64) (found []resource.Decision, err error) {
	for batch, err := range h.log.Read(c.r.Context(), from, to) {
		if err != nil {
			return nil, unreadableDecisions(err)
		}
		for _, m := range batch {
			if d, ok := decisionOf(m); ok {
				found = append(found, d)
			}
		}
	}
	return found, c.r.Context().Err()
}

// decisionOf reads a decision; false: it is of a newer worker, or of nobody of ours.
func decisionOf(m streams.Message) (d resource.Decision, ok bool) {
	ok = json.Unmarshal(m.Body, &d) == nil
	d.Seq = m.Seq
	return d, ok
}

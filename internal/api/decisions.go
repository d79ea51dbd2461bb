package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// DecisionLog is the log of what admission policies decided; *streams.Decisions is one.
type DecisionLog interface {
	State(ctx context.Context) (streams.State, error)
	// Read yields those from one sequence to another, oldest first.
	Read(ctx context.Context, from, to uint64) iter.Seq2[[]streams.Message, error]
}

// decisionHandlers serve the decision log.
type decisionHandlers struct {
	log  DecisionLog // nil: this worker keeps none
	auth *authorizer
}

const cursorDecisions = "d"

// Decisions are read from the newest to older ones, so many at a time, and at most so
// many for one page: a filter that lets hardly anything pass must not read a gigabyte.
const (
	decisionsAtOnce = 500
	decisionsAPage  = 10_000
)

func (h *decisionHandlers) routes() []Route {
	filters := []Param{
		queryText("policy", "Only those in which the policy of this id or name refused or failed."),
		queryText("user", "Only those that this user asked for."), queryText("tenant", "Only those of this tenant."),
		{Name: "outcome", In: "query", Summary: "Only those that ended so.", Schema: &openapi.Schema{Type: "string", Enum: openapi.OneOfTexts(admission.Outcomes...)}},
		queryText("decision", "Only the one of this id."),
	}
	times := []Param{
		{Name: "since", In: "query", Summary: "Only those of this moment or later.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}},
		{Name: "until", In: "query", Summary: "Only those before this moment.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}},
	}
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
	}
}

// wanted is which decisions are asked for.
type wanted struct {
	q            url.Values
	since, until time.Time
}

func (c *call) wantedDecisions() (w wanted, err error) {
	w.q = c.r.URL.Query()
	if text := w.q.Get("outcome"); text != "" && !slices.Contains(admission.Outcomes, text) {
		return w, broken(http.StatusBadRequest, CodeBadParameter, "/outcome", "%q is no outcome; there are %v", text, admission.Outcomes)
	}
	for name, into := range map[string]*time.Time{"since": &w.since, "until": &w.until} {
		if text := w.q.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return w, broken(http.StatusBadRequest, CodeBadParameter, "/"+name, "%q is no time; write it as 2026-11-20T12:00:00Z", text)
			}
		}
	}
	return w, nil
}

// keeps reports whether a decision is asked for, and may be seen by who asks.
func (w wanted) keeps(who *access.Principal, d resource.Decision) bool {
	if who != nil && !who.MaySee(policy.Tenant, d.TenantID, "") && !who.MaySee(policy.User, "", d.UserID) {
		return false
	}
	if name := w.q.Get("policy"); name != "" && (d.Policy == nil || d.Policy.ID != name && d.Policy.Name != name) {
		return false
	}
	return asked(w.q["user"], d.UserID) && asked(w.q["tenant"], d.TenantID) && asked(w.q["outcome"], d.Outcome) && asked(w.q["decision"], d.DecisionID) &&
		!d.Time.Before(w.since) && (w.until.IsZero() || d.Time.Before(w.until))
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
			if w.keeps(c.who, d) {
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
			var d resource.Decision
			if json.Unmarshal(m.Body, &d) != nil {
				continue // of a newer worker, or of nobody of ours
			}
			d.Seq = m.Seq
			found = append(found, d)
		}
	}
	return found, c.r.Context().Err()
}

// How often the log is looked at for a stream, and how often a stream that says nothing
// says that it is there.
const (
	decisionsPace      = 500 * time.Millisecond
	decisionsKeepAlive = 25 * time.Second
	decisionsPatience  = 30 * time.Second // with who reads nothing
)

func (h *decisionHandlers) follow(c *call) error {
	w, err := c.wantedDecisions()
	if err != nil {
		return err
	}
	after := uint64(math.MaxUint64)
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return problem(http.StatusBadRequest, CodeBadLastEventID, "Last-Event-ID: %.40q is no seq of a decision", text)
		}
	}
	_, last, err := h.extent(c)
	if err != nil {
		return err
	}
	last = min(last, after)
	ctx, cancel := untilStop(c.r.Context())
	defer cancel()
	defer h.auth.revalidate(c, cancel)()
	c.w.Header().Set("Content-Type", mediaSSE)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	s := decisionStream{c: c, rc: http.NewResponseController(c.w)}
	if s.send(":hello\n\n") != nil {
		return nil
	}
	ticker := time.NewTicker(decisionsPace)
	defer ticker.Stop()
	for {
		if last, err = h.tell(s, w, last); err != nil {
			return nil // the client has left, or comes back with its last id
		}
		if s.quiet++; s.quiet > int(decisionsKeepAlive/decisionsPace) {
			if s.send(":keep-alive\n\n") != nil {
				return nil
			}
			s.quiet = 0
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tell sends what was decided after a sequence, and says how far that is.
func (h *decisionHandlers) tell(s decisionStream, w wanted, after uint64) (last uint64, err error) {
	first, last, err := h.extent(s.c)
	if err != nil || last <= after {
		return after, err
	}
	found, err := h.between(s.c, max(first, after+1), last)
	if err != nil {
		return after, err
	}
	for _, d := range found {
		if !w.keeps(s.c.who, d) {
			continue
		}
		text, err := json.Marshal(d)
		if err != nil {
			return after, err
		}
		if err := s.send(fmt.Sprintf("id: %d\nevent: decision\ndata: %s\n\n", d.Seq, text)); err != nil {
			return after, err
		}
	}
	return last, nil
}

// decisionStream writes server-sent events.
type decisionStream struct {
	c     *call
	rc    *http.ResponseController
	quiet int
}

func (s decisionStream) send(text string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(decisionsPatience)) // not every connection has one
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

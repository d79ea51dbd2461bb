package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

// logEventHandlers serve the log as it was folded: each event with its verdict.
type logEventHandlers struct {
	model logEventModel
	views views // nil: what an event changed is not shown
	audit *auditHandlers
	auth  *authorizer
	seqAt func(ctx context.Context, at time.Time) (uint64, error) // nil: this worker does not read the log for others
}

// logEventModel says how far the log is folded.
type logEventModel interface {
	Applied() uint64
	Wait(ctx context.Context, seq uint64) error
}

// logEventsAtOnce is how many events are read at a time.
const logEventsAtOnce = 500

func (h *logEventHandlers) routes() []Route {
	since := Param{Name: "since", In: "query", Summary: "Those that were stored after this moment as well.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}}
	filters := []Param{
		eventTypeParam(),
		queryText("policy", "Only those of the policy of this id."),
		queryText("node", "Only those of this node."),
		headerText("Last-Event-ID", "The seq of the last event that was read: those above it come, whatever since says."),
	}
	answers := []Answer{{Status: http.StatusOK, MediaType: mediaSSE, Body: eitherOf{resource.LogEvent{}, resource.LogEnd{}}}}
	problems := []string{CodeBadLastEventID, policy.CodeInvalidNodeID, CodeLogUnavailable, CodeLogCompacted}
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/events", ID: "followEvents", Tag: "plane", Needs: access.ReadPlane,
			Summary: "Follow the log as it is folded: each event with its verdict, from now on, after an id or since a moment. One frame caught_up says where the log's end was met first",
			Params:  append([]Param{since, queryText("project", "Only those of the project of this id.")}, filters...),
			Answers: answers, Problems: problems, serve: h.follow, byRelations: true,
		},
		{
			Method: http.MethodGet, Pattern: "/v1/projects/{project}/events", ID: "followProjectEvents", Tag: "plane", Needs: access.SeeProject,
			Summary: "Follow the events of a project as they are folded, likewise",
			Params:  append([]Param{since}, filters...),
			Answers: answers, Problems: problems, serve: h.follow, byRelations: true,
		},
		{
			Method: http.MethodGet, Pattern: "/v1/log/seq", ID: "seqAt", Tag: "plane", Needs: access.ReadPlane,
			Summary: "Find the last event that was stored at a moment or before",
			Params:  []Param{{Name: "at", In: "query", Required: true, Summary: "The moment.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}}},
			Answers: jsonAnswer(http.StatusOK, resource.LogMoment{}), Problems: []string{CodeLogUnavailable, CodeLogCompacted}, serve: h.moment,
		},
	}
}

func eventTypes() (names []string) {
	for _, k := range policy.Kinds() {
		names = append(names, k.Type)
	}
	return names
}

func eventTypeParam() Param {
	return Param{Name: "type", In: "query", Summary: "Only those of this type.", Schema: &openapi.Schema{Type: "string", Enum: openapi.OneOfTexts(eventTypes()...)}}
}

// eventType reads the type of the events that are asked for; empty: of any.
func eventType(c *call) (string, error) {
	kind := c.r.URL.Query().Get("type")
	if kind != "" && policy.KindNamed(kind) == nil {
		return "", broken(http.StatusBadRequest, CodeBadParameter, "/type", "%.40q is no type of an event; there are %v", kind, eventTypes())
	}
	return kind, nil
}

func (h *logEventHandlers) moment(c *call) error {
	at, err := c.queryTime("at")
	if err != nil {
		return err
	}
	seq, err := h.at(c, at)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, resource.LogMoment{At: at.UTC(), Seq: seq})
}

func (h *logEventHandlers) at(c *call, at time.Time) (uint64, error) {
	if h.seqAt == nil {
		return 0, unreadLog()
	}
	seq, err := h.seqAt(c.r.Context(), at)
	if err != nil {
		return 0, unreadableLog(err)
	}
	return seq, nil
}

// wantedEvents is which events are asked for.
type wantedEvents struct {
	project, policy uuid.UUID // nil: of any
	node            policy.NodeID
	kind            string
}

func (h *logEventHandlers) wanted(c *call) (w wantedEvents, err error) {
	q := c.r.URL.Query()
	if w.project, err = anyProject(c); err != nil {
		return w, err
	}
	if q.Has("policy") {
		if w.policy, err = c.queryID("policy"); err != nil {
			return w, err
		}
	}
	if q.Has("node") {
		if w.node, err = policy.ParseNodeID(q.Get("node")); err != nil {
			return w, broken(http.StatusUnprocessableEntity, policy.CodeInvalidNodeID, "/node", "%.80q is no node id, a DNS label: no event is of such a node", q.Get("node"))
		}
	}
	w.kind, err = eventType(c)
	return w, err
}

func (w wantedEvents) has(e resource.LogEvent) bool {
	same := func(id uuid.UUID, text string) bool { return id == uuid.Nil || id.String() == text }
	return same(w.project, e.ProjectID) && same(w.policy, e.PolicyID) && (w.node == "" || string(w.node) == e.NodeID) && (w.kind == "" || w.kind == e.Type)
}

// after is the sequence that a stream begins behind.
func (h *logEventHandlers) after(c *call) (seq uint64, err error) {
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		if seq, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, problem(http.StatusBadRequest, CodeBadLastEventID, "Last-Event-ID: %.40q is no seq of an event", text)
		}
		return h.known(c, seq)
	}
	if c.r.URL.Query().Get("since") == "" {
		return h.model.Applied(), nil
	}
	since, err := c.queryTime("since")
	if err != nil {
		return 0, err
	}
	return h.at(c, since)
}

// known is a sequence that a client read up to, or else the log's end: another worker may
// have folded more than this one, and nobody more than there is.
func (h *logEventHandlers) known(c *call, seq uint64) (uint64, error) {
	if seq <= h.model.Applied() {
		return seq, nil
	}
	log, err := h.audit.log.State(c.r.Context())
	if err != nil {
		return 0, unreadableLog(err)
	}
	return min(seq, log.Last), nil
}

func (h *logEventHandlers) follow(c *call) error {
	w, err := h.wanted(c)
	if err != nil {
		return err
	}
	if h.audit.trail == nil {
		return unreadLog()
	}
	after, err := h.after(c)
	if err != nil {
		return err
	}
	if _, err := h.audit.trail(c.r.Context(), after, 1); err != nil {
		return unreadableLog(err) // said now, and not by a stream that ends
	}
	ctx, cancel := untilStop(c.r.Context())
	defer cancel()
	defer h.auth.follow(c, cancel)()
	s := &logEventStream{sse: beginSSE(c), h: h, w: w, who: c.who, after: after}
	_ = s.run(ctx) // the client has left, or comes back with its last id
	return nil
}

// What became of an event.
const verdictApplied, verdictRejected = "applied", "rejected"

func unreadLog() error {
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "this worker does not read the log for others")
}

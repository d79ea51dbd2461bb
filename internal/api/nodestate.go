package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

const (
	patternState    = "/v1/nodes/{node}/state"
	patternRulesets = "/v1/nodes/{node}/rulesets"
	patternEvents   = "/v1/nodes/{node}/events"
)

// apiVersion is what agents read from headerAPIVersion.
const (
	apiVersion       = "v1"
	headerAPIVersion = "X-Plexsphere-API-Version"
)

// stateHandlers serve a node what it must do, at once and as it changes.
type stateHandlers struct {
	reads  *reads
	relay  Relay
	states nodeStates
	auth   *authorizer
	pulled *lastPulled
	held   held
	past   *pastHandlers
}

func (h *stateHandlers) routes() []Route {
	lags := readProblems(CodeNodeNotFound, CodeStarting)
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternState, ID: "getNodeState", Tag: "node", Needs: access.ReadNode,
			Summary:  "Read a node's whole desired state",
			Params:   []Param{minSeqParam, atParam, ifNoneMatchParam},
			Answers:  cachedAnswer(resource.NodeState{}, HeaderEventID, HeaderLogSeq, "ETag"),
			Problems: pastProblems(slices.Clip(lags)...), serve: h.stateAt,
		},
		{
			Method: http.MethodGet, Pattern: patternRulesets, ID: "listNodeRulesets", Tag: "node", Needs: access.ReadNode,
			Summary: "List a node's compiled rulesets by policy id", Params: []Param{minSeqParam, atParam, ifNoneMatchParam},
			Answers:  cachedAnswer(resource.Items[resource.Ruleset]{}, "ETag"),
			Problems: pastProblems(slices.Clip(lags)...), serve: h.rulesetsAt,
		},
		{
			Method: http.MethodGet, Pattern: patternEvents, ID: "followNode", Tag: "node", Needs: access.ReadNode,
			Summary: "Follow a node's signed events", Params: []Param{
				{Name: "Last-Event-ID", In: "header", Summary: "Resume after this id; live from now when absent.", Schema: &openapi.Schema{Type: "string", Pattern: "^[0-9]*$"}},
				headerTag("Accept", "The form of the events: text/event-stream, with dialect=batch, current or legacy (absent: the one that the node registered with), and tables=true of a reader that enforces tables."),
			},
			Answers:  []Answer{{Status: http.StatusOK, MediaType: mediaSSE, Body: eitherOf{resource.Event{}, resource.BatchEvent{}, resource.LegacyEvent{}}, Headers: []string{headerAPIVersion}}},
			Problems: append(slices.Clip(lags), CodeBadLastEventID, CodeNotAcceptable), serve: h.events,
		},
	}
}

func starting(err error) error {
	return problem(http.StatusServiceUnavailable, CodeStarting, "this worker cannot serve nodes now: %v", err)
}

func (h *stateHandlers) state(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	position, err := h.reads.position(c, h.relay)
	if err != nil {
		return err
	}
	var s snapshot.State
	var at, came uint64
	var agent bool
	err = h.reads.check(c, func(v *projector.View) (err error) {
		var ok bool
		project, _ := v.ProjectOfNode(id)
		at, came, agent = v.Seq(), v.Came(id), c.who == nil || c.who.IsAgentOf(project, id)
		if s, ok, err = h.states.State(v, id); err == nil && !ok {
			err = nodeNotFound(id)
		}
		return err
	})
	if err != nil {
		return err
	}
	rows := s.Fingerprint
	if s, err = h.states.resolved(c.r.Context(), id, s); err != nil {
		return busy(err)
	}
	if agent && c.r.Method != http.MethodHead { // what others read, or nobody, the node has not pulled
		h.pulled.put(id, pulledState{etag: s.ETag, seq: at, fingerprint: rows}, came)
	}
	header := c.w.Header()
	header.Set(HeaderEventID, position.String())
	header.Set(HeaderLogSeq, strconv.FormatUint(at, 10))
	header.Set("ETag", s.ETag)
	header.Set("Cache-Control", "no-cache")
	if noneMatch(c.r.Header.Values(headerIfNoneMatch), s.ETag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.coded(http.StatusOK, mediaJSON, s.Body)
	if c.r.Context().Err() != nil { // it does not have all of it
		h.pulled.forget(id)
	}
	return nil
}

// nodeStates are the states of nodes: what their rows say, or what they come to where
// the rows alone do not say it.
type nodeStates struct {
	*snapshot.Composer
	blocks *snapshot.Blocks
}

// resolved is the state that a node is served whose rows give s. It may be of a later
// moment, which does no harm: what happened in between is announced. It ends with ctx,
// and when the server stops.
func (n nodeStates) resolved(ctx context.Context, id policy.NodeID, s snapshot.State) (snapshot.State, error) {
	ctx, end := untilStop(ctx)
	defer end()
	r, resolved, err := n.blocks.Of(ctx, id)
	if err != nil || !resolved {
		return s, err
	}
	return r, nil
}

// positions say how far the events of nodes have come.
type positions interface {
	Position() policy.EventID
	Ready() error
}

// position is the event id to resume after once what is read next is applied. It is
// read before the rows: what is sent between the two comes again on the stream, which
// is harmless; the other way round it would be missed.
func (r *reads) position(c *call, relay positions) (policy.EventID, error) {
	if err := r.fresh(c); err != nil {
		return 0, err
	}
	if err := relay.Ready(); err != nil {
		return 0, starting(err)
	}
	return relay.Position(), nil
}

// noneMatch reports whether a client's If-None-Match names etag. Agents that
// send none always get the body.
func noneMatch(headers []string, etag string) bool {
	for _, h := range headers {
		for tag := range strings.SplitSeq(h, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

func (h *stateHandlers) rulesets(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	if err := h.reads.fresh(c); err != nil {
		return err
	}
	var sets []snapshot.Ruleset
	err = h.reads.check(c, func(v *projector.View) (err error) {
		var ok bool
		if sets, ok, err = snapshot.Rulesets(v, id); err == nil && !ok {
			err = nodeNotFound(id)
		}
		return err
	})
	if err != nil {
		return err
	}
	out := resource.Items[resource.Ruleset]{Items: make([]resource.Ruleset, 0, len(sets))}
	for _, s := range sets {
		out.Items = append(out.Items, showRuleset(s))
	}
	return tagged(c, out)
}

func showRuleset(s snapshot.Ruleset) resource.Ruleset {
	return resource.Ruleset{
		PolicyID:    s.Policy,
		RevisionID:  s.Revision,
		Fingerprint: s.Fingerprint.String(),
		RulePayload: string(s.Payload),
		CompiledAt:  s.CompiledAt.UTC(),
	}
}

func (h *stateHandlers) events(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	if err := h.reads.node(c, id); err != nil {
		return err
	}
	if err := h.relay.Ready(); err != nil {
		return starting(err)
	}
	if c.r.Method == http.MethodHead {
		c.w.Header().Set(headerAPIVersion, apiVersion)
		c.w.Header().Set("Content-Type", mediaSSE)
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	ctx, cancel := untilStop(c.r.Context())
	defer cancel()
	defer h.auth.revalidate(c, cancel)()
	if c.who != nil {
		defer h.held.join(holding{c.who.ID, id}, streamsEach, cancel)()
	}
	return notServed(id, h.relay.ServeEvents(c.w, c.r.WithContext(ctx), id))
}

// node refuses what is about a node that is not known, neither here nor at the
// log's head.
func (r *reads) node(c *call, id policy.NodeID) error {
	return r.check(c, func(v *projector.View) error {
		if !v.HasNode(id) {
			return nodeNotFound(id)
		}
		return nil
	})
}

// notServed says why a stream could not be opened.
func notServed(id policy.NodeID, err error) error {
	var pr *resource.Problem
	var form *relay.NotAcceptableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pr):
		return pr
	case errors.As(err, &form):
		return problem(http.StatusNotAcceptable, CodeNotAcceptable, "%s", form.Detail)
	case errors.Is(err, relay.ErrBadLastEventID):
		return problem(http.StatusBadRequest, CodeBadLastEventID,
			"Last-Event-ID is the id of an event of this stream, a non-negative decimal number")
	case errors.Is(err, projector.ErrUnknownNode):
		return nodeNotFound(id)
	}
	return starting(err)
}

// drainKey finds, in a request's context, the context that ends when the server
// stops: a stream would keep it from stopping.
type drainKey struct{}

// untilStop ends with the request, or by errStopping as soon as the server is asked
// to stop: streams would keep it from stopping, and tables may be half a minute of
// work, which another worker can do.
func untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func() { cancel(nil) }
	drain, ok := ctx.Value(drainKey{}).(context.Context)
	if !ok {
		return ctx, end
	}
	stop := context.AfterFunc(drain, func() { cancel(errStopping) })
	return ctx, func() { stop(); end() }
}

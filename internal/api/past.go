package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// pastHandlers answer about nodes as the log was at a moment: with the handlers that
// answer about the present, over a read model that stands there.
type pastHandlers struct {
	history *snapshot.History                                       // nil: 503
	live    *reads                                                  // of the present
	seqAt   func(ctx context.Context, at time.Time) (uint64, error) // nil: 503
	event   func(ctx context.Context, seq uint64) (streams.Message, error)
	base    func() uint64
	clock   func() time.Time
	quiet   *Metrics // the past is nobody's lag
	deltas  *semaphore.Weighted
}

// pastNode are the handlers over one read model of the past.
type pastNode struct {
	*stateHandlers
	*tableHandlers
}

// momentParam is a parameter that names a moment of the log.
func momentParam(name, summary string, required bool) Param {
	return Param{Name: name, In: "query", Required: required, Summary: summary, Schema: &openapi.Schema{
		Type: "string", Pattern: `^([0-9]+|[0-9]{4}-.+)$`, Examples: []any{"4711"},
	}}
}

var atParam = momentParam("at", "As the log was at a moment: behind the event of this sequence, or at this time (RFC 3339).", false)

// pastProblems are the codes that a moment of the past adds to a route.
func pastProblems(more ...string) []string {
	return append(more, CodeBadParameter, CodeNotYet, CodeLogUnavailable, CodeLogCompacted, CodeTooManyAtOnce)
}

// or has then answer a request about a node at a moment of the past, and now all others.
func (h *pastHandlers) or(c *call, now func(*call) error, then func(pastNode) func(*call) error) error {
	return h.orMoment(c, now, func(m *snapshot.Moment) func(*call) error { return then(h.node(m)) })
}

// orMoment has then answer a request about a moment of the past, and now all others.
func (h *pastHandlers) orMoment(c *call, now func(*call) error, then func(*snapshot.Moment) func(*call) error) error {
	q := c.r.URL.Query()
	if !q.Has(atParam.Name) {
		return now(c)
	}
	if q.Has(minSeqParam.Name) {
		return broken(http.StatusBadRequest, CodeBadParameter, "/"+minSeqParam.Name, "min_seq waits for the present, and at asks for the past: give one of them")
	}
	seq, err := h.moment(c, atParam.Name)
	if err != nil {
		return err
	}
	return h.at(c, seq, func(m *snapshot.Moment) error { return then(m)(c) })
}

// stateAt is state, of the moment that is asked for.
func (h *stateHandlers) stateAt(c *call) error {
	return h.past.or(c, h.state, func(n pastNode) func(*call) error { return n.state })
}

func (h *stateHandlers) rulesetsAt(c *call) error {
	return h.past.or(c, h.rulesets, func(n pastNode) func(*call) error { return n.rulesets })
}

func (h *tableHandlers) datapathAt(c *call) error {
	return h.past.or(c, h.datapath, func(n pastNode) func(*call) error { return n.datapath })
}

func (h *tableHandlers) explainAt(c *call) error {
	return h.past.or(c, h.explain, func(n pastNode) func(*call) error { return n.explain })
}

// getAt is get, of the moment that is asked for.
func (h *policyHandlers) getAt(c *call) error {
	return h.past.orMoment(c, h.get, func(m *snapshot.Moment) func(*call) error {
		return (&policyHandlers{model: m.Store, reads: h.past.readsOf(m)}).get
	})
}

// summaryAt is summary, of the moment that is asked for.
func (h *nodeReports) summaryAt(c *call) error {
	return h.past.orMoment(c, h.summary, func(m *snapshot.Moment) func(*call) error {
		return (&fleetThen{seq: m.Seq, model: m.Store}).summary
	})
}

// moment reads the log sequence that a parameter names.
func (h *pastHandlers) moment(c *call, name string) (uint64, error) {
	if h.history == nil {
		return 0, unreadLog()
	}
	head, err := h.head(c)
	if err != nil {
		return 0, err
	}
	text := c.r.URL.Query().Get(name)
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
		if of, ours := policy.EventID(seq).Seq(h.base()); ours && seq > head && 0 < of && of <= head {
			return 0, broken(http.StatusBadRequest, CodeNotYet, "/"+name, "%d is the id of an event that a node was sent; its log sequence, %d, is meant here", seq, of)
		}
		if seq > head {
			return 0, broken(http.StatusBadRequest, CodeNotYet, "/"+name, "event %d is not in the log yet, which ends at %d", seq, head)
		}
		return seq, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, broken(http.StatusBadRequest, CodeBadParameter, "/"+name, "%.40q is no moment; write a log sequence, or a time as 2026-11-20T12:00:00Z%s", text, plusHint(text))
	}
	if now := h.clock(); at.After(now) {
		return 0, broken(http.StatusBadRequest, CodeNotYet, "/"+name, "%s is yet to come; the log ends at event %d now, %s", text, head, now.UTC().Format(time.RFC3339))
	}
	if h.seqAt == nil {
		return 0, unreadLog()
	}
	seq, err := h.seqAt(c.r.Context(), at)
	if err != nil {
		return 0, unreadableLog(err)
	}
	return seq, nil
}

// head is the log's, once the present is folded up to it: what a plane says of the past
// its own fold has passed.
func (h *pastHandlers) head(c *call) (uint64, error) {
	if err := h.live.catchUp(c, 0); err != nil {
		return 0, err
	}
	return h.live.model.Applied(), nil
}

// at has f read the log as it was at a sequence. The fold ends with the request.
func (h *pastHandlers) at(c *call, seq uint64, f func(*snapshot.Moment) error) error {
	ctx, end := untilStop(c.r.Context())
	defer end()
	m, done, err := h.history.At(ctx, seq)
	if err != nil {
		return pastFault(ctx, err)
	}
	defer done()
	return f(m)
}

// pastFault is err as a problem.
func pastFault(ctx context.Context, err error) error {
	switch {
	case errors.As(err, new(*snapshot.CrowdedError)), errors.Is(err, snapshot.NoRoomError{}):
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "%v", err)
	case ctx.Err() != nil:
		return busy(err)
	}
	return unreadableLog(err)
}

// node makes the handlers over a read model of the past.
func (h *pastHandlers) node(m *snapshot.Moment) pastNode {
	then := h.readsOf(m)
	return pastNode{
		&stateHandlers{reads: then, relay: sentUpTo(policy.EndOf(h.base(), m.Seq)), states: nodeStates{m.Composer, m.Blocks}, pulled: new(lastPulled)},
		&tableHandlers{reads: then, tables: m.Tables, model: m.Store, deltas: h.deltas},
	}
}

// readsOf reads a model of the past.
func (h *pastHandlers) readsOf(m *snapshot.Moment) *reads {
	return &reads{log: endsAt(m.Seq), model: m.Store, gate: h.live.gate, metrics: h.quiet, patience: time.Second}
}

// endsAt is a log that ended at a sequence.
type endsAt uint64

func (e endsAt) Head(context.Context) (uint64, error) { return uint64(e), nil }

// sentUpTo is a relay that sent nodes everything up to an id, and nothing since.
type sentUpTo policy.EventID

func (s sentUpTo) Position() policy.EventID { return policy.EventID(s) }
func (sentUpTo) Ready() error               { return nil }

func (sentUpTo) ServeEvents(http.ResponseWriter, *http.Request, policy.NodeID) error {
	return errors.New("nothing of the past is followed")
}

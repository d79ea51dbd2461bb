package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/rollout"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Convergence is what the API asks of whoever follows nodes' reports;
// *convergence.Tracker is one.
type Convergence interface {
	Report(ctx context.Context, id policy.NodeID, rep policy.Report) error
	Rollout(ctx context.Context, project, id uuid.UUID, limit int) (convergence.Rollout, bool, error)
	Reached(ctx context.Context, project, id uuid.UUID) (convergence.Reached, bool, error)
	Fleet(ctx context.Context, limit int) (convergence.Fleet, error)
	NotApplied(ctx context.Context) (map[policy.Outcome]int, error)
	Census(ctx context.Context) (*convergence.Census, error)
	Statuses(ids []policy.NodeID) ([]convergence.NodeStatus, error)
}

const (
	patternApplied = "/v1/nodes/{node}/applied"
	patternRollout = "/v1/projects/{project}/policies/{policy}/rollout"
)

const (
	defaultLagging = 100
	maxLagging     = 1000
)

var laggingParam = Param{
	Name: "limit", In: "query", Summary: "Lagging nodes to list, those behind for the longest; more than 1000 are 1000.",
	Schema: &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Default: defaultLagging},
}

// convergenceHandlers take and serve what nodes applied.
type convergenceHandlers struct {
	model       views
	clock       func() time.Time
	reads       *reads
	gate        *writeGate
	convergence Convergence
	refusals    *tableRefusals
	states      nodeStates
	pulled      *lastPulled
}

func (h *convergenceHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternApplied, ID: "reportApplied", Tag: "node", Needs: access.ActAsNode,
			Summary:  "Report what a node applied, or why it did not; a newer report replaces the older one",
			BodyType: mediaJSON, Body: resource.Applied{},
			Answers: []Answer{{Status: http.StatusAccepted}},
			Problems: writeProblems(bodyProblems(CodeNodeNotFound, CodeStarting, CodeTooManyAtOnce, CodeVersionAhead,
				policy.CodeMissing, policy.CodeInvalidVersion, policy.CodeInvalidFingerprint,
				policy.CodeUnknownOutcome, policy.CodeTooManyCounts, policy.CodeInvalidCount, policy.CodeInvalidUUID, policy.CodeTextTooLong, policy.CodeControlCharacter)...),
			serve: h.reportApplied,
		},
		{
			Method: http.MethodGet, Pattern: patternRollout, ID: "getRollout", Tag: "policies", Needs: access.ReadPolicy,
			Summary: "Say how many nodes have applied a policy's head, or let go of a policy, and who lags",
			Params:  []Param{laggingParam, ifNoneMatchParam},
			Answers: cachedAnswer(resource.Rollout{}, "ETag"), Problems: readProblems(CodePolicyNotFound, CodeStarting, CodeTooManyAtOnce),
			serve: h.rollout,
		},
	}
}

func (h *convergenceHandlers) reportApplied(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	rep, err := decoded(c, policy.DecodeReport)
	if err != nil {
		return err
	}
	if h.convergence == nil {
		return starting(errNoReports)
	}
	ctx := c.r.Context()
	var rows snapshot.State
	err = h.reads.check(c, func(v *projector.View) (err error) {
		if !v.HasNode(id) {
			return nodeNotFound(id)
		}
		if at := reported(v, rep); at > v.Seq() {
			return broken(http.StatusUnprocessableEntity, CodeVersionAhead, farField(rep),
				"what is reported is of log sequence %d, above the last, %d; report the event id of what was applied last", at, v.Seq())
		}
		if rep.Table > v.Seq() {
			return broken(http.StatusUnprocessableEntity, CodeVersionAhead, "/table_version",
				"log sequence %d is above the last, %d; report Edict-Log-Seq of the table", rep.Table, v.Seq())
		}
		rows, _, err = h.states.State(v, id)
		return err
	})
	if err != nil {
		return err
	}
	if err := h.gate.check(); err != nil {
		return err
	}
	if rep, err = h.ofRows(ctx, id, rep, rows); err != nil {
		return busy(err)
	}
	h.pulled.spoken(id)
	if err := h.convergence.Report(ctx, id, rep); err != nil {
		return unreported(err)
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// ofRows is the report that a node of a resolved block would give of its rows, by
// whose fingerprint it is judged: who says that it has the block has applied them.
func (h *convergenceHandlers) ofRows(ctx context.Context, id policy.NodeID, rep policy.Report, rows snapshot.State) (policy.Report, error) {
	if rep.Fingerprint == rows.Fingerprint {
		return rep, nil
	}
	block, err := h.states.resolved(ctx, id, rows)
	if err == nil && rep.Fingerprint == block.Fingerprint {
		rep.Fingerprint = rows.Fingerprint
	}
	return rep, err
}

// reported is the log sequence that a report names. The view says what event ids count from: who
// asks the model anew under a view stops the fold, which may wait to write.
func reported(v *projector.View, rep policy.Report) uint64 {
	if rep.Event == 0 {
		return rep.Version
	}
	return rep.Seq(v.Base())
}

// farField points to what a report names it with.
func farField(rep policy.Report) string {
	if rep.Event == 0 {
		return "/version"
	}
	return "/event_id"
}

func unreported(err error) error {
	var early *convergence.NotReadyError
	switch {
	case errors.As(err, &early):
		return starting(err)
	case errors.Is(err, streams.ErrStorage):
		return problem(http.StatusInsufficientStorage, CodeStorageLow, "reports are not stored now: %v", err)
	}
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the report was not acknowledged (%v); send it again", err)
}

func (h *convergenceHandlers) rollout(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	limit, err := c.limitOf(defaultLagging, maxLagging)
	if err != nil {
		return err
	}
	if h.convergence == nil {
		return starting(errNoReports)
	}
	var waves *resource.Waves
	audit := false
	err = h.reads.check(c, func(v *projector.View) error {
		_, ok, err := v.Steps(project, id, 1)
		if err == nil && !ok {
			err = policyNotFound(id)
		}
		waves = wavesOf(v, project, id)
		if err == nil {
			var p policy.Policy
			p, _, err = v.Policy(project, id)
			audit = p.Head.Order.Audit
		}
		return err
	})
	if err != nil {
		return err
	}
	r, ok, err := h.convergence.Rollout(c.r.Context(), project, id, limit)
	if err == nil && !ok {
		err = policyNotFound(id)
	}
	if err != nil {
		return unheard(err)
	}
	if err := h.reached(c.r.Context(), project, id, waves); err != nil {
		return err
	}
	refused, err := h.refusals.of(c.r.Context(), project, id, limit)
	if err != nil {
		return busy(err)
	}
	out := resource.Rollout{
		Desired: r.Desired, Applied: r.Applied, Dropped: r.Dropped, Lagging: showLagging(r.Lagging),
		P50Seconds: r.P50, P99Seconds: r.P99, Refused: refused, Waves: waves, Refusals: showRefusals(r.Refusals),
		Arrivals: showArrivals(r.Arrivals),
	}
	if audit {
		out.Audited = showAudited(r.Audited)
	}
	return tagged(c, out)
}

func showArrivals(all []convergence.Arrival) (out []resource.Arrival) {
	for _, a := range all {
		x := resource.Arrival{LogSeq: a.Seq, Nodes: a.Nodes, P50Seconds: a.P50, P99Seconds: a.P99, Curve: make([]resource.ArrivalPoint, 0, len(a.Curve))}
		if a.Revision != uuid.Nil {
			x.RevisionID = &a.Revision
		}
		if !a.Time.IsZero() {
			x.Time = &a.Time
		}
		for _, p := range a.Curve {
			x.Curve = append(x.Curve, resource.ArrivalPoint{Seconds: p.Seconds, Nodes: p.Nodes})
		}
		out = append(out, x)
	}
	return out
}

func showAudited(a convergence.Audited) *resource.Audited {
	return &resource.Audited{
		Nodes: a.Nodes, Egress: a.Denied.Egress, Ingress: a.Denied.Ingress, ByDefault: resource.AuditedByDefault(a.ByDefault),
	}
}

// reached adds to what is said of a rollout under way what its nodes report, and what
// its newest wave waits for.
func (h *convergenceHandlers) reached(ctx context.Context, project, id uuid.UUID, waves *resource.Waves) error {
	if waves == nil {
		return nil
	}
	r, ok, err := h.convergence.Reached(ctx, project, id)
	if err != nil || !ok || r.Rollout.Revision != waves.RevisionID {
		return err
	}
	waves.Reached = &resource.Reached{Nodes: r.All.Nodes, Applied: r.All.Applied, Refused: r.All.Refused}
	if r.Rollout.Phase != projector.RolloutUnderWay {
		return nil
	}
	switch d := rollout.Decide(r); d.Act {
	case rollout.Wait:
		waves.WaitsFor = d.Why
	case rollout.Open:
		h.model.Read(func(v *projector.View) {
			waves.WaitsFor = rollout.Held(v, projector.PolicyRef{Project: project, Policy: id}, r.Rollout, d, h.clock())
		})
	}
	return nil
}

func showRefusals(list []convergence.Refusal) []resource.Refusal {
	out := make([]resource.Refusal, 0, len(list))
	for _, x := range list {
		out = append(out, resource.Refusal{NodeID: string(x.Node), Outcome: x.Outcome.String(), Reason: x.Reason, Since: x.Since})
	}
	return out
}

func showNotApplied(of map[policy.Outcome]int) resource.NotApplied {
	return resource.NotApplied{Refused: of[policy.OutcomeRefused], Stale: of[policy.OutcomeStale], Drift: of[policy.OutcomeDrift]}
}

func showLagging(list []convergence.Lagging) []resource.Lagging {
	out := make([]resource.Lagging, 0, len(list))
	for _, l := range list {
		x := resource.Lagging{NodeID: string(l.Node)}
		if !l.Since.IsZero() {
			x.Since = new(time.Time)
			*x.Since = l.Since.UTC()
		}
		out = append(out, x)
	}
	return out
}

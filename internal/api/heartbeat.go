package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// CodeClockSkew means that an agent's clock is too far from the plane's.
const CodeClockSkew = "clock_skew"

// maxSkew is how far an agent's clock may be from the plane's: events are signed
// with the plane's time, and agents refuse old ones.
const maxSkew = time.Minute

// maxKey is the most bytes of the key of a state report.
const maxKey = 253

const (
	patternHeartbeat = "/v1/nodes/{node}/heartbeat"
	patternDrift     = "/v1/nodes/{node}/drift"
	patternReport    = "/v1/nodes/{node}/state/reports/{key}"
)

// heartbeatHandlers take what an agent says about itself. Edict keeps none of it,
// except that a node which reports after it pulled has applied what it pulled.
type heartbeatHandlers struct {
	model       views
	reads       *reads
	relay       interface{ Ready() error }
	states      nodeStates
	convergence Convergence
	gate        *writeGate
	checks      *checks
	health      healthCache
	pulled      *lastPulled
	clock       func() time.Time
	log         *slog.Logger
}

func (h *heartbeatHandlers) routes() []Route {
	return append(h.reportRoutes(), h.droppedRoutes()...)
}

// agentProblems are the codes that any report of an agent may be answered with.
func agentProblems(more ...string) []string {
	return append(readProblems(CodeNodeNotFound, policy.CodeMalformedJSON, policy.CodeDuplicateKey, policy.CodeWrongType, CodeBodyTooLarge, CodeUnsupportedMedia), more...)
}

func (h *heartbeatHandlers) reportRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternHeartbeat, ID: "heartbeat", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary:  "Say that a node's agent lives, and hear whether it must pull its state; what it pulled before counts as applied",
			BodyType: mediaJSON, Body: resource.Heartbeat{},
			Answers: jsonAnswer(http.StatusOK, resource.HeartbeatAccepted{}), Problems: agentProblems(CodeClockSkew), serve: h.heartbeat,
		},
		{
			Method: http.MethodPost, Pattern: patternDrift, ID: "reportDrift", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary:  "Report what a node put right; what it pulled before counts as applied",
			BodyType: mediaJSON, Body: resource.Drift{},
			Answers: jsonAnswer(http.StatusAccepted, resource.Accepted{}), Problems: agentProblems(), serve: h.drift,
		},
		{
			Method: http.MethodPut, Pattern: patternReport, ID: "putStateReport", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary:  "Report a value of a node's state, which is not kept; what it pulled before counts as applied",
			BodyType: mediaJSON, Body: resource.StateReport{},
			Answers: jsonAnswer(http.StatusAccepted, resource.StateReported{}), Problems: agentProblems(policy.CodeTextTooLong), serve: h.stateReport,
		},
		{
			Method: http.MethodDelete, Pattern: patternReport, ID: "deleteStateReport", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary: "Take a value of a node's state back, of which none is kept",
			Answers: noContent(), Problems: readProblems(CodeNodeNotFound, policy.CodeTextTooLong), serve: h.deleteStateReport,
		},
	}
}

// droppedRoutes take what nobody reads.
func (h *heartbeatHandlers) droppedRoutes() (all []Route) {
	for _, r := range []struct{ method, name, id, summary, media string }{
		{http.MethodPut, "capabilities", "putCapabilities", "Say what a node can do, which is not kept", mediaJSON},
		{http.MethodPut, "endpoint", "putEndpoint", "Say where a node is reached, which is not kept", mediaJSON},
		{http.MethodPost, "metrics", "postMetrics", "Send measurements, which are not kept", mediaNDJSON},
		{http.MethodPost, "logs", "postLogs", "Send log lines, which are not kept", mediaNDJSON},
		{http.MethodPost, "audit", "postAudit", "Send audit lines, which are not kept", mediaNDJSON},
	} {
		all = append(all, Route{
			Method: r.method, Pattern: "/v1/nodes/{node}/" + r.name, ID: r.id, Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary: r.summary, BodyType: r.media, Body: json.RawMessage{},
			Answers: jsonAnswer(http.StatusAccepted, resource.Accepted{}), Problems: agentProblems(), serve: h.dropped,
		})
	}
	return all
}

// agentOf reads which node an agent speaks for, and whether there is one.
func (h *heartbeatHandlers) agentOf(c *call) (policy.NodeID, error) {
	id, err := c.pathNode()
	if err != nil {
		return "", err
	}
	return id, h.reads.node(c, id)
}

func (h *heartbeatHandlers) heartbeat(c *call) error {
	id, err := h.agentOf(c)
	if err != nil {
		return err
	}
	var body resource.Heartbeat
	if err := c.lenient(&body); err != nil {
		return err
	}
	now := h.clock()
	if t := body.ClientNow; t != nil && !t.IsZero() {
		if skew := t.Sub(now).Abs(); skew > maxSkew {
			return broken(http.StatusBadRequest, CodeClockSkew, "/client_now", "the agent's clock is %s from the plane's; set it, to within %s", skew.Round(time.Second), maxSkew)
		}
	}
	h.applied(c.r.Context(), id)
	return c.json(http.StatusOK, resource.HeartbeatAccepted{AcceptedAt: now.UTC(), Reconcile: h.mustPull(c.r.Context(), id)})
}

// mustPull reports whether a node should not rely on its event stream: delivery is
// degraded, or the node has not pulled its present state.
func (h *heartbeatHandlers) mustPull(ctx context.Context, id policy.NodeID) bool {
	if h.relay.Ready() != nil || !h.health.healthy(ctx, h.checks.run) {
		return true
	}
	last, ok := h.pulled.get(id)
	if !ok {
		// It pulled elsewhere, or before this process began: what it has is not
		// known, so it is reported once.
		h.pulled.put(id, pulledState{unseen: true, reported: true}, 0)
		return true
	}
	if last.unseen {
		return false
	}
	var s snapshot.State
	var err error
	var came uint64
	h.model.Read(func(v *projector.View) {
		s, ok, err = h.states.State(v, id)
		came = v.Came(id)
	})
	if came > last.seq {
		return true // it was removed, and came again
	}
	if err == nil && ok {
		s, err = h.states.resolved(ctx, id, s)
	}
	return err != nil || ok && s.ETag != last.etag
}

func (h *heartbeatHandlers) drift(c *call) error {
	id, err := h.agentOf(c)
	if err != nil {
		return err
	}
	var body resource.Drift
	if err := c.lenient(&body); err != nil {
		return err
	}
	h.applied(c.r.Context(), id)
	return c.json(http.StatusAccepted, resource.Accepted{AcceptedAt: h.clock().UTC()})
}

func (h *heartbeatHandlers) stateReport(c *call) error {
	id, err := h.agentOf(c)
	if err != nil {
		return err
	}
	key, err := reportKey(c)
	if err != nil {
		return err
	}
	var body resource.StateReport
	if err := c.lenient(&body); err != nil {
		return err
	}
	h.applied(c.r.Context(), id)
	return c.json(http.StatusAccepted, resource.StateReported{AcceptedAt: h.clock().UTC(), Key: key})
}

func reportKey(c *call) (string, error) {
	key := c.r.PathValue("key")
	if len(key) > maxKey {
		return "", broken(http.StatusUnprocessableEntity, policy.CodeTextTooLong, "/key", "the key of a report is at most %d bytes", maxKey)
	}
	return key, nil
}

// deleteStateReport has nothing to delete. It proves nothing either: agents take
// reports back whenever what they are about is gone.
func (h *heartbeatHandlers) deleteStateReport(c *call) error {
	if _, err := h.agentOf(c); err != nil {
		return err
	}
	if _, err := reportKey(c); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// dropped takes what nobody reads, within the limits of any body.
func (h *heartbeatHandlers) dropped(c *call) error {
	if _, err := h.agentOf(c); err != nil {
		return err
	}
	if c.route.BodyType == mediaJSON {
		var body map[string]jsontext.Value
		if err := c.lenient(&body); err != nil {
			return err
		}
	} else if _, err := c.body(); err != nil {
		return err
	}
	return c.json(http.StatusAccepted, resource.Accepted{AcceptedAt: h.clock().UTC()})
}

// applied takes what an agent sends after a pull for the word that it has applied
// what it pulled: agents pull, apply and report one after the other, and heartbeats
// come long after that. It is a convenience, so what goes wrong with it is not the agent's to hear.
func (h *heartbeatHandlers) applied(ctx context.Context, id policy.NodeID) {
	if h.convergence == nil || h.gate.check() != nil {
		return
	}
	s, ok := h.pulled.report(id)
	if !ok {
		return
	}
	if err := h.convergence.Report(ctx, id, policy.Report{Version: s.seq, Fingerprint: s.fingerprint}); err != nil {
		h.log.Debug("a node's report is not kept", "node", id, "error", err)
		h.pulled.forget(id)
	}
}

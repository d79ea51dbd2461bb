package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

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

// heartbeatRoutes are what an agent tells of itself. Edict keeps none of it, but
// that a node which reports after it pulled has applied what it pulled.
func heartbeatRoutes() []Route {
	lags := readProblems(CodeNodeNotFound)
	takes := append(lags, policy.CodeMalformedJSON, policy.CodeDuplicateKey, policy.CodeWrongType, CodeBodyTooLarge, CodeUnsupportedMedia)
	all := []Route{
		{
			Method: http.MethodPost, Pattern: patternHeartbeat, ID: "heartbeat", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary:  "Say that a node's agent lives, and hear whether it must pull its state",
			BodyType: mediaJSON, Body: resource.Heartbeat{},
			Answers: jsonAnswer(http.StatusOK, resource.HeartbeatAccepted{}), Problems: append(takes, CodeClockSkew), serve: (*plane).heartbeat,
		},
		{
			Method: http.MethodPost, Pattern: patternDrift, ID: "reportDrift", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary:  "Report what a node put right; what it pulled before counts as applied",
			BodyType: mediaJSON, Body: resource.Drift{},
			Answers: jsonAnswer(http.StatusAccepted, resource.Accepted{}), Problems: takes, serve: (*plane).drift,
		},
		{
			Method: http.MethodPut, Pattern: patternReport, ID: "putStateReport", Tag: "node", Needs: access.ActAsNode, Lenient: true,
			Summary:  "Report a value of a node's state, which is not kept; what it pulled before counts as applied",
			BodyType: mediaJSON, Body: resource.StateReport{},
			Answers: jsonAnswer(http.StatusAccepted, resource.StateReported{}), Problems: append(takes, policy.CodeTextTooLong), serve: (*plane).stateReport,
		},
	}
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
			Answers: jsonAnswer(http.StatusAccepted, resource.Accepted{}), Problems: takes, serve: (*plane).dropped,
		})
	}
	return all
}

// agentOf reads which node an agent speaks for, and whether there is one.
func (p *plane) agentOf(c *call) (policy.NodeID, error) {
	id, err := c.pathNode()
	if err != nil {
		return "", err
	}
	return id, p.settled(c, func(v *projector.View) error {
		if _, ok := v.Node(id); !ok {
			return nodeNotFound(id)
		}
		return nil
	})
}

func (p *plane) heartbeat(c *call) error {
	id, err := p.agentOf(c)
	if err != nil {
		return err
	}
	var body resource.Heartbeat
	if err := c.lenient(&body); err != nil {
		return err
	}
	now := p.Clock()
	if t := body.ClientNow; t != nil && !t.IsZero() {
		if skew := t.Sub(now).Abs(); skew > maxSkew {
			return broken(http.StatusBadRequest, CodeClockSkew, "/client_now", "the agent's clock is %s from the plane's; set it, to within %s", skew.Round(time.Second), maxSkew)
		}
	}
	return c.json(http.StatusOK, resource.HeartbeatAccepted{AcceptedAt: now.UTC(), Reconcile: p.mustPull(c.r.Context(), id)})
}

// mustPull reports whether a node should not rely on being told: what tells it
// is degraded, or it did not pull what is so now.
func (p *plane) mustPull(ctx context.Context, id policy.NodeID) bool {
	if p.Relay.Ready() != nil || !p.health.healthy(ctx, p.check) {
		return true
	}
	last, ok := p.pulled.get(id)
	if !ok {
		// It pulled elsewhere, or before this process began: what it has is not
		// known, so it is told once.
		p.pulled.put(id, pulledState{unseen: true, reported: true})
		return true
	}
	if last.unseen {
		return false
	}
	var s snapshot.State
	var err error
	p.Model.Read(func(v *projector.View) { s, ok, err = p.Composer.State(v, id) })
	return err != nil || ok && s.ETag != last.etag
}

func (p *plane) drift(c *call) error {
	id, err := p.agentOf(c)
	if err != nil {
		return err
	}
	var body resource.Drift
	if err := c.lenient(&body); err != nil {
		return err
	}
	p.applied(c.r.Context(), id)
	return c.json(http.StatusAccepted, resource.Accepted{AcceptedAt: p.Clock().UTC()})
}

func (p *plane) stateReport(c *call) error {
	id, err := p.agentOf(c)
	if err != nil {
		return err
	}
	key := c.r.PathValue("key")
	if len(key) > maxKey {
		return broken(http.StatusUnprocessableEntity, policy.CodeTextTooLong, "/key", "the key of a report is at most %d bytes", maxKey)
	}
	var body resource.StateReport
	if err := c.lenient(&body); err != nil {
		return err
	}
	p.applied(c.r.Context(), id)
	return c.json(http.StatusAccepted, resource.StateReported{AcceptedAt: p.Clock().UTC(), Key: key})
}

// dropped takes what nobody reads, within the limits of any body.
func (p *plane) dropped(c *call) error {
	if _, err := p.agentOf(c); err != nil {
		return err
	}
	if c.route.BodyType == mediaJSON {
		var body map[string]any
		if err := c.lenient(&body); err != nil {
			return err
		}
	} else if _, err := c.body(); err != nil {
		return err
	}
	return c.json(http.StatusAccepted, resource.Accepted{AcceptedAt: p.Clock().UTC()})
}

// applied takes an agent's report for the word that it has applied what it
// pulled: agents pull, apply and report one after the other. It is a
// convenience, so what goes wrong with it is not the agent's to hear.
func (p *plane) applied(ctx context.Context, id policy.NodeID) {
	if p.Convergence == nil || p.writable() != nil {
		return
	}
	s, ok := p.pulled.report(id)
	if !ok {
		return
	}
	if err := p.Convergence.Report(ctx, id, policy.Report{Version: s.seq, Fingerprint: s.fingerprint}); err != nil {
		p.Trace.Debug("a node's report is not kept", "node", id, "error", err)
		p.pulled.forget(id)
	}
}

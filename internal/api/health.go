package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
)

// tagHealth is the tag of routes for probes and scrapes.
const tagHealth = "health"

// checkPatience bounds one run of all checks.
const checkPatience = 2 * time.Second

func healthRoutes() []Route {
	text := []Answer{{Status: http.StatusOK, MediaType: mediaText}}
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/openapi.json", ID: "getDocument", Tag: tagHealth, Needs: access.Anyone, early: true,
			Summary: "Read this description of the API",
			Answers: jsonAnswer(http.StatusOK, json.RawMessage{}),
			serve:   (*plane).getDocument,
		},
		{
			Method: http.MethodGet, Pattern: "/livez", ID: "livez", Tag: tagHealth, Needs: access.Anyone, early: true,
			Summary: "Say that the process answers", Answers: text,
			serve: func(_ *plane, c *call) error { c.bytes(http.StatusOK, mediaText, []byte("ok\n")); return nil },
		},
		{
			Method: http.MethodGet, Pattern: "/readyz", ID: "readyz", Tag: tagHealth, Needs: access.Anyone, early: true,
			Summary: "Say whether this worker can serve; verbose, with each check as JSON",
			Params:  []Param{queryFlag("verbose", "Show each check, durability among them.")},
			Answers: append(text, jsonAnswer(http.StatusOK, resource.Readiness{})...), Problems: []string{CodeStarting},
			serve: (*plane).readyz,
		},
		{
			Method: http.MethodGet, Pattern: "/metrics", ID: "metrics", Tag: tagHealth, Needs: access.ReadPlane, early: true,
			Summary: "Measurements for Prometheus", Answers: text, Problems: []string{CodeRouteNotFound},
			serve: func(p *plane, c *call) error {
				if p.MetricsPage == nil {
					return problem(http.StatusNotFound, CodeRouteNotFound, "this worker shows no metrics")
				}
				p.MetricsPage.ServeHTTP(c.w, c.r)
				return nil
			},
		},
	}
}

func (p *plane) readyz(c *call) error {
	verbose, err := c.queryFlag("verbose")
	if err != nil {
		return err
	}
	checks, failed := p.check(c.r.Context())
	if len(failed) > 0 {
		pr := problem(http.StatusServiceUnavailable, CodeStarting, "not ready: %s", strings.Join(failed, ", "))
		pr.Checks = checks
		return pr
	}
	if !verbose {
		c.bytes(http.StatusOK, mediaText, []byte("ok\n"))
		return nil
	}
	return c.json(http.StatusOK, resource.Readiness{Status: "ready", Checks: checks})
}

// check runs every check, one after the other.
func (p *plane) check(ctx context.Context) (all []resource.Check, failed []string) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	run := []Check{
		{"log", func(ctx context.Context) error { _, err := p.Log.State(ctx); return err }}, // over the connection, which the head may not need
		{"projection", p.foldMoves},
		{"relay", func(context.Context) error { return p.Relay.Ready() }},
	}
	if p.Writable != nil {
		run = append(run, Check{"storage", func(context.Context) error { return p.Writable() }})
	}
	for _, k := range append(run, p.Checks...) {
		c := resource.Check{Name: k.Name, Status: "ok"}
		if err := k.Probe(ctx); err != nil {
			c.Status, c.Detail = "failed", err.Error()
			failed = append(failed, fmt.Sprintf("%s (%v)", k.Name, err))
		}
		all = append(all, c)
	}
	return append(all, resource.Check{Name: "durability", Status: "info", Detail: p.Durability()}), failed
}

// foldMoves wants the fold to reach the log's head as it is now. Readers would
// wait that long at most, so a worker that cannot is no good to them.
func (p *plane) foldMoves(ctx context.Context) error {
	head, err := p.Log.Head(ctx)
	if err != nil {
		return fmt.Errorf("the log's head is not known")
	}
	if err := p.Model.Wait(ctx, head); err != nil {
		return fmt.Errorf("folded up to %d of %d", p.Model.Applied(), head)
	}
	return nil
}

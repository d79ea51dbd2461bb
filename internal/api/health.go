package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
)

// tagHealth is the tag of routes for probes and scrapes.
const tagHealth = "health"

// healthHandlers serve what supervisors and scrapes ask for.
type healthHandlers struct {
	checks   *checks
	page     http.Handler           // of the metrics; nil: there are none
	document func() ([]byte, error) // the OpenAPI document
}

func (h *healthHandlers) routes() []Route {
	text := []Answer{{Status: http.StatusOK, MediaType: mediaText}}
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/openapi.json", ID: "getDocument", Tag: tagHealth, Needs: access.Anyone, early: true,
			Summary: "Read this description of the API",
			Answers: jsonAnswer(http.StatusOK, json.RawMessage{}), serve: h.getDocument,
		},
		{
			Method: http.MethodGet, Pattern: "/livez", ID: "livez", Tag: tagHealth, Needs: access.Anyone, early: true,
			Summary: "Say that the process answers", Answers: text,
			serve: func(c *call) error { c.bytes(http.StatusOK, mediaText, []byte("ok\n")); return nil },
		},
		{
			Method: http.MethodGet, Pattern: "/readyz", ID: "readyz", Tag: tagHealth, Needs: access.Anyone, early: true,
			Summary: "Say whether this worker can serve; verbose, with each check as JSON",
			Params:  []Param{queryFlag("verbose", "Show each check, durability among them.")},
			Answers: append(text, jsonAnswer(http.StatusOK, resource.Readiness{})...), Problems: []string{CodeStarting},
			serve: h.readyz,
		},
		{
			Method: http.MethodGet, Pattern: "/metrics", ID: "metrics", Tag: tagHealth, Needs: access.ReadPlane, early: true,
			Summary: "Measurements for Prometheus", Answers: text, Problems: []string{CodeRouteNotFound},
			serve: h.metrics,
		},
	}
}

func (h *healthHandlers) metrics(c *call) error {
	if h.page == nil {
		return problem(http.StatusNotFound, CodeRouteNotFound, "this worker shows no metrics")
	}
	h.page.ServeHTTP(c.w, c.r)
	return nil
}

func (h *healthHandlers) readyz(c *call) error {
	verbose, err := c.queryFlag("verbose")
	if err != nil {
		return err
	}
	checks, failed := h.checks.run(c.r.Context())
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

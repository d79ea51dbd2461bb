package api_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// unaudited are the routes that may change something, by their method, and write
// no event, each with why.
var unaudited = map[string]string{
	"evaluate":             "decides, and keeps what it decided in EDICT_DECISIONS",
	"alphaEvaluateRequest": "likewise",
	"dryRunPolicy":         "says what a revision would do, and does nothing",
	"dryRunNewPolicy":      "likewise",

	"createSessionLink": "lends a browser the caller's credentials, and gives nobody any that they had not",
	"openSession":       "likewise",
	"closeSession":      "likewise",

	"createSnapshot": "a checkpoint is derived from the log, and decides nothing; the worker's own log names who asked",

	"compactLog": "it changes no fact; the origin is signed, and the worker's own log names who asked",

	"reportApplied":     "what a node says of itself is in EDICT_REPORTS, and no fact (docs/convergence.md)",
	"heartbeat":         "likewise, and nothing of it is kept",
	"reportDrift":       "likewise; it counts as a report",
	"putStateReport":    "likewise",
	"deleteStateReport": "there is nothing to delete",
	"putCapabilities":   "likewise, and nothing of it is kept",
	"putEndpoint":       "likewise, and nothing of it is kept",
	"postMetrics":       "likewise, and nothing of it is kept",
	"postLogs":          "likewise, and nothing of it is kept",
	"postAudit":         "likewise, and nothing of it is kept",
}

// alphaGoods are good requests of the surface of existing clients: path and
// body.
var alphaGoods = map[string][2]string{
	"alphaCreatePolicy":    {alphas + "?id=alpha", `{"display_name":"Alpha","policy_type":"GLOBAL","priority":9,"rego_code":"package a\n"}`},
	"alphaUpdatePolicy":    {alphas + "/alpha", `{"description":"changed"}`},
	"alphaDeletePolicy":    {alphas + "/alpha", ""},
	"alphaEvaluateRequest": {alphaEval, `{"service_instance":{"spec":{"service_type":"vm"}}}`},
}

// Whatever a request changes is in the audit, with who asked and in which
// request. A route is asked that way because it is in the table: a new one is
// found there too, or is named above with a reason.
func TestEveryWriteIsInTheAudit(t *testing.T) {
	gen.Unraced()
	var said bytes.Buffer
	p, tokens := guarded(t, map[string][]string{"admin": roles["admin"]}, func(d *api.Deps) {
		// As the plane does it, and its tests show.
		log := d.Log.(*memLog)
		d.Trace = slog.New(slog.NewTextHandler(&said, nil))
		d.RotateKey = func(ctx context.Context, r api.Rotation) ([]resource.Key, error) {
			_, _, err := log.Publish(ctx, streams.Append{
				Event:     policy.KeyRotated{ID: uuid.New(), Key: "ed25519:0123456789abcdef", Previous: "ed25519:fedcba9876543210", Expires: epoch},
				Principal: r.Principal, Correlation: r.CorrelationID,
			})
			keys, rerr := rotated(ctx, r)
			require.NoError(t, rerr)
			return keys, err
		}
	})
	admin := bearer(tokens["admin"])
	head := into[resource.Policy](t, p.do("POST", policies, draft("web"), admin))
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{}`, admin))
	p.awaits(awaited, admin)
	p.want(http.StatusOK, "", p.do("PUT", "/v1/access/principals/ops", `{"kind":"service"}`, admin))
	first := into[resource.AdmissionID](t, p.do("POST", admissions, admissionDraft(t, "first", "Global", 3, specified(`{"reject": false}`)), admin))

	rank := func(r api.Route) int { // the node goes last
		return slices.Index([]string{"POST", "PUT", "PATCH", "DELETE"}, r.Method) + btoi(r.ID == "deleteNode")
	}
	routes := slices.DeleteFunc(api.Routes(), func(r api.Route) bool { return r.Method == http.MethodGet })
	slices.SortStableFunc(routes, func(a, b api.Route) int { return rank(a) - rank(b) })
	requests := map[string]good{}
	for _, g := range goods(head, first.ID) {
		if g.route.ID == "withdrawArtifact" {
			g.path["node"] = "n9" // to which one was released
		}
		if g.route.ID == "deregisterNode" {
			g.path["node"] = awaited // which registered before
		}
		requests[g.route.ID] = g
	}
	for _, r := range routes {
		t.Run(r.ID, func(t *testing.T) {
			written, request := p.log.Len(), "request of "+r.ID
			g, ours := requests[r.ID]
			who, header := "admin", append(g.header, admin, "X-Correlation-Id: "+request, "X-Edict-Principal: somebody-else")
			if r.ID == "registerNode" {
				who = awaited // as its token says
			}
			target, body := alphaGoods[r.ID][0], alphaGoods[r.ID][1]
			if ours {
				target, body = g.target(), g.body
			}
			require.NotEmpty(t, target, "%s may change something: have it asked here, so that it is seen in the audit", r.ID)
			dryRun(t, p, r, target, body, header...)
			a := p.do(r.Method, target, body, header...)
			require.Less(t, a.StatusCode, 300, "%s", a.body)
			var lines []string
			page := into[resource.Page[resource.AuditEntry]](t, p.do("GET", "/v1/audit?limit=200", "", admin))
			require.Nil(t, page.NextCursor)
			for _, e := range page.Items {
				if e.CorrelationID == request {
					lines = append(lines, e.Principal)
				}
			}
			if why, ok := unaudited[r.ID]; ok {
				require.Equal(t, written, p.log.Len(), "%s", why)
				if r.Admin() && !strings.Contains(r.Pattern, "valuate") {
					require.Regexp(t, `principal=admin correlation_id="`+request+`"`, said.String(), "its own log names who asked")
				}
				return
			}
			require.Equal(t, []string{who}, lines, "one line says who, and in which request; if %s writes nothing, say why in unaudited", r.ID)
		})
	}
	for id, why := range unaudited {
		require.True(t, slices.ContainsFunc(routes, func(r api.Route) bool { return r.ID == id }), "%s: there is no such route", id)
		require.NotEmpty(t, strings.TrimSpace(why))
	}
}

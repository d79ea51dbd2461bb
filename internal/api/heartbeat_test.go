package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

func TestAHeartbeatSaysWhetherToPull(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"}}`)
	beat := func(body string) resource.HeartbeatAccepted {
		t.Helper()
		a := p.do("POST", "/v1/nodes/n1/heartbeat", body)
		p.want(200, "", a)
		return into[resource.HeartbeatAccepted](t, a)
	}
	now := p.deps.Clock()
	first := beat(`{"client_now":"` + now.Format(time.RFC3339Nano) + `","binary_version":"2","nat_summary":{"type":"none"}}`)
	require.Equal(t, resource.HeartbeatAccepted{AcceptedAt: now.UTC(), Reconcile: true}, first, "a node that never pulled here may lack anything")
	require.False(t, beat(`{}`).Reconcile, "it was told, and may be pulling elsewhere")

	p.want(200, "", p.do("GET", "/v1/nodes/n1/state", ""))
	require.False(t, beat(`{}`).Reconcile)
	p.create("web")
	require.True(t, beat(`{}`).Reconcile, "what it pulled is not so any more")
	p.want(200, "", p.do("GET", "/v1/nodes/n1/state", ""))
	require.False(t, beat(`{}`).Reconcile)

	p.relay.set(0, errors.New("the gate is shut"))
	require.True(t, beat(`{}`).Reconcile, "nobody would push")
	p.relay.set(7, nil)
	require.False(t, beat(`{}`).Reconcile)

	// An older agent sends its zero values, and what else it likes.
	require.False(t, beat(`{"node_id":"","timestamp":"0001-01-01T00:00:00Z","client_now":"0001-01-01T00:00:00Z","status":"","uptime":0}`).Reconcile)
}

func TestAnAgentsClockMustNotBeFarOff(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	for off, status := range map[time.Duration]int{
		time.Minute: 200, -time.Minute: 200, time.Minute + time.Millisecond: 400, -time.Minute - time.Millisecond: 400, 24 * time.Hour: 400,
	} {
		a := p.do("POST", "/v1/nodes/n1/heartbeat", `{"client_now":"`+p.deps.Clock().Add(off).Format(time.RFC3339Nano)+`"}`)
		require.Equal(t, status, a.StatusCode, "%s: %s", off, a.body)
		if status == 400 {
			require.Equal(t, "clock_skew", a.problem(t).Code)
		}
	}
}

func TestWhatAgentsSendIsTakenWithinLimits(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	spaces := inflating(strings.Repeat(" ", 1<<18), 40)
	array := `[` + strings.Repeat(`{"name":"cpu","value":1.5},`, 100) + `{}]`
	for _, row := range []struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		{"PUT", "capabilities", `{"builtin_actions":[],"wireguard":true}`, nil, 202, ""},
		{"PUT", "endpoint", `{"public_endpoint":"192.0.2.1:51820","nat_type":"none"}`, nil, 202, ""},
		{"POST", "metrics", array, nil, 202, ""},
		{"POST", "metrics", gzipped(array), []string{"Content-Encoding: gzip"}, 202, ""},
		{"POST", "logs", "{}\n{}\n", []string{"Content-Type: application/x-ndjson"}, 202, ""},
		{"POST", "audit", "{}\n", []string{"Content-Type: application/x-ndjson"}, 202, ""},
		{"POST", "drift", gzipped(`{"corrections":[]}`), []string{"Content-Encoding: gzip"}, 202, ""},
		{"PUT", "state/reports/net.up", gzipped(`{"value":"up"}`), []string{"Content-Encoding: gzip"}, 202, ""},
		{"PUT", "state/reports/a%2Fb", `{"value":"up"}`, nil, 202, ""},
		{"PUT", "state/reports/" + strings.Repeat("k", 254), `{"value":"up"}`, nil, 422, "text_too_long"},
		{"POST", "drift", `{"corrections":"none"}`, nil, 400, "wrong_type"},
		{"POST", "metrics", strings.Repeat("x", 1<<20+1), nil, 413, "body_too_large"},
		{"POST", "logs", spaces, []string{"Content-Encoding: gzip"}, 413, "body_too_large"},
		{"POST", "audit", spaces, []string{"Content-Encoding: gzip"}, 413, "body_too_large"},
		{"POST", "metrics", "x", []string{"Content-Encoding: br"}, 415, "unsupported_media_type"},
		{"POST", "logs", "x", []string{"Content-Encoding: br"}, 415, "unsupported_media_type"},
		{"POST", "audit", "x", []string{"Content-Encoding: br"}, 415, "unsupported_media_type"},
	} {
		a := p.do(row.method, "/v1/nodes/n1/"+row.path, row.body, row.header...)
		require.Equal(t, row.status, a.StatusCode, "%s: %s", row.path, a.body)
		if row.code == "" {
			require.Contains(t, string(a.body), `"accepted_at"`, "agents take an answer without a body for none")
		} else {
			require.Equal(t, row.code, a.problem(t).Code)
		}
	}
	require.Equal(t, 1, p.log.Len(), "nothing is kept")
}

// What is wrong with a report is said in the words of its sender, who knows no Go.
func TestAReportThatIsNotAsDescribedSaysWhatIsWanted(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	for _, row := range []struct{ method, path, body, detail string }{
		{"POST", "heartbeat", `[]`, "the document: want an object, found an array"},
		{"POST", "heartbeat", `null`, "the document: want an object, found null"},
		{"POST", "heartbeat", `{"client_now":1}`, "/client_now: want a time such as 2026-11-20T12:00:00Z, found a number"},
		{"POST", "heartbeat", `{"client_now":"x"}`, "/client_now: want a time such as 2026-11-20T12:00:00Z, found another string"},
		{"POST", "heartbeat", `{"binary_version":5}`, "/binary_version: want a string, found a number"},
		{"POST", "drift", `{"corrections":"none"}`, "/corrections: want an array, found a string"},
		{"PUT", "capabilities", `[]`, "the document: want an object, found an array"},
	} {
		a := serve(t, p.Handler, row.method, "/v1/nodes/n1/"+row.path, row.body)
		require.Equal(t, http.StatusBadRequest, a.StatusCode, "%s", a.body)
		require.Equal(t, row.detail, a.problem(t).Detail)
	}
	require.Equal(t, http.StatusAccepted, p.do("PUT", "/v1/nodes/n1/capabilities", `{"huge":1e400}`).StatusCode, "nobody reads it")
}

// A node has applied what it pulled once it reports anything that it does after
// applying.
func TestAReportAfterAPullCountsAsApplied(t *testing.T) {
	for what, report := range map[string]func(p *plane) answer{
		"a heartbeat": func(p *plane) answer { return p.do("POST", "/v1/nodes/n1/heartbeat", `{}`) },
		"drift": func(p *plane) answer {
			return p.do("POST", "/v1/nodes/n1/drift", `{"corrections":[{"type":"policy_added"}]}`)
		},
		"a state report": func(p *plane) answer { return p.do("PUT", "/v1/nodes/n1/state/reports/policy", `{"value":"applied"}`) },
	} {
		t.Run(what, func(t *testing.T) {
			p := newPlane(t)
			p.put("n1", `{"labels":{"role":"web"}}`)
			made := p.create("web")
			applied := func() int {
				return into[resource.Rollout](t, p.do("GET", policies+"/"+made.ID.String()+"/rollout", "")).Applied
			}
			status := http.StatusAccepted
			if what == "a heartbeat" {
				status = http.StatusOK
			}
			require.Equal(t, status, report(p).StatusCode)
			require.Zero(t, applied(), "it has not pulled")
			require.Equal(t, http.StatusOK, p.do("HEAD", "/v1/nodes/n1/state", "").StatusCode)
			require.Equal(t, status, report(p).StatusCode)
			require.Zero(t, applied(), "it has the headers alone")
			p.want(200, "", p.do("GET", "/v1/nodes/n1/state", ""))
			require.Zero(t, applied(), "pulling is not applying")
			require.Equal(t, status, report(p).StatusCode)
			require.Equal(t, 1, applied())

			p.want(200, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"rules":`+strings.Replace(webRules, "allow", "deny", 1)+`}`))
			require.Equal(t, status, report(p).StatusCode)
			require.Zero(t, applied(), "what it reports now was pulled before the change")
			p.want(200, "", p.do("GET", "/v1/nodes/n1/state", ""))
			require.Equal(t, status, report(p).StatusCode)
			require.Equal(t, 1, applied())
		})
	}
}

// cutting is a connection that ends while an answer is sent, as net/http shows it.
type cutting struct {
	*httptest.ResponseRecorder
	end context.CancelFunc
}

func (c cutting) Write([]byte) (int, error) {
	c.end()
	return 0, syscall.EPIPE
}

// What a node has not received it cannot have applied.
func TestAPullThatIsCutIsNone(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"}}`)
	made := p.create("web")
	ctx, end := context.WithCancel(t.Context())
	p.Handler.ServeHTTP(cutting{httptest.NewRecorder(), end}, httptest.NewRequestWithContext(ctx, "GET", "/v1/nodes/n1/state", nil))
	require.ErrorIs(t, ctx.Err(), context.Canceled, "it was answered")
	a := p.do("POST", "/v1/nodes/n1/heartbeat", `{}`)
	p.want(200, "", a)
	require.True(t, into[resource.HeartbeatAccepted](t, a).Reconcile)
	require.Zero(t, into[resource.Rollout](t, p.do("GET", policies+"/"+made.ID.String()+"/rollout", "")).Applied)
}

// A node that was removed and came again has said nothing yet, though it pulls what it had.
func TestANodeThatCameAgainCountsAsAppliedAnew(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	applied := func() int {
		return into[resource.Rollout](t, p.do("GET", policies+"/"+made.ID.String()+"/rollout", "")).Applied
	}
	beat := func() bool {
		a := p.do("POST", "/v1/nodes/n1/heartbeat", `{}`)
		p.want(200, "", a)
		return into[resource.HeartbeatAccepted](t, a).Reconcile
	}
	for _, when := range []string{"first", "again"} {
		p.put("n1", `{"labels":{"role":"web"}}`)
		require.True(t, beat(), when)
		require.Zero(t, applied(), when)
		p.want(200, "", p.do("GET", "/v1/nodes/n1/state", ""))
		require.False(t, beat(), when)
		require.Equal(t, 1, applied(), when)
		p.want(204, "", p.do("DELETE", nodes+"/n1", ""))
	}
}

// What a node says of itself is not overruled by what its heartbeats suggest.
func TestAHeartbeatDoesNotSpeakForANodeThatRefused(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"}}`)
	id := p.create("web").ID.String()
	p.want(http.StatusAccepted, "", p.say("n1", "refused", "it is not for me")) // it pulls before
	p.want(http.StatusOK, "", p.do("POST", "/v1/nodes/n1/heartbeat", `{}`))
	r := p.rollout(id)
	require.Zero(t, r.Applied)
	require.Len(t, r.Refusals, 1)
	p.report("n1")
	require.Equal(t, 1, p.rollout(id).Applied)
}

// Edict keeps no reports of state, so there is none to take back.
func TestAStateReportCanBeTakenBack(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	take := func(node, key string) answer { return p.do("DELETE", "/v1/nodes/"+node+"/state/reports/"+key, "") }
	p.want(http.StatusNoContent, "", take("n1", "net.up"))
	p.want(http.StatusNoContent, "", take("n1", "net.up"))
	p.want(http.StatusNotFound, "node_not_found", take("ghost", "net.up"))
	p.want(http.StatusUnprocessableEntity, "text_too_long", take("n1", strings.Repeat("k", 254)))
}

// What others read of a node's state, it has not pulled.
func TestWhatAnOperatorReadsANodeHasNotPulled(t *testing.T) {
	p, tokens := guarded(t, roles)
	admin, agent := bearer(tokens["admin"]), bearer(tokens["agent"])
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{"labels":{"role":"web"}}`, admin))
	made := p.create("web", admin)
	applied := func() int {
		return into[resource.Rollout](t, p.do("GET", policies+"/"+made.ID.String()+"/rollout", "", admin)).Applied
	}
	read := func(who ...string) {
		for _, name := range who {
			p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/state", "", bearer(tokens[name])))
		}
	}
	beat := func() bool {
		a := p.do("POST", "/v1/nodes/n1/heartbeat", `{}`, agent)
		p.want(http.StatusOK, "", a)
		return into[resource.HeartbeatAccepted](t, a).Reconcile
	}
	read("operator", "admin")
	require.True(t, beat(), "it pulled nothing here")
	require.Zero(t, applied())
	read("agent")
	require.False(t, beat())
	require.Equal(t, 1, applied())

	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"rules":`+strings.Replace(webRules, "allow", "deny", 1)+`}`, admin))
	read("operator", "admin")
	require.True(t, beat(), "it has what was before")
	require.Zero(t, applied())
	read("agent", "operator")
	require.False(t, beat())
	require.Equal(t, 1, applied())
}

// Who leaves while the worker is looked at says nothing about the worker.
func TestAHeartbeatThatIsGivenUpSendsNobodyToPull(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.Checks = []api.Check{{Name: "slow", Probe: func(ctx context.Context) error { return ctx.Err() }}}
	})
	p.put("n1", `{}`)
	p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/state", ""))
	left, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(left, http.MethodPost, "/v1/nodes/n1/heartbeat", strings.NewReader(`{}`))
	r.Header.Set("Content-Type", "application/json")
	p.Handler.ServeHTTP(httptest.NewRecorder(), r)
	a := p.do("POST", "/v1/nodes/n1/heartbeat", `{}`)
	p.want(http.StatusOK, "", a)
	require.False(t, into[resource.HeartbeatAccepted](t, a).Reconcile)
}

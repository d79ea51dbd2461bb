package api_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

// person makes a principal with these relations, by the API, and is its token.
func (p *plane) person(t *testing.T, id, admin string, relations ...string) (token string) {
	t.Helper()
	token, kept := access.NewToken(uuid.New(), time.Time{})
	doc := policy.AppendPrincipal(nil, policy.Principal{Kind: policy.Person, Tokens: []policy.Token{kept}})
	p.want(http.StatusOK, "", p.do("PUT", "/v1/access/principals/"+id, string(doc), admin))
	for _, r := range relations {
		p.want(http.StatusOK, "", p.do("POST", "/v1/access/principals/"+id+"/relations", `{"relation":"`+r+`"}`, admin))
	}
	return token
}

// TestAStreamEndsWithTheRelationsOfWhoeverFollows: the relation that the route needs, or
// one of those by which it was decided what the stream shows.
func TestAStreamEndsWithTheRelationsOfWhoeverFollows(t *testing.T) {
	now := time.Now()
	p, tokens := guarded(t, map[string][]string{"admin": roles["admin"]}, withSessions(t, &now), func(d *api.Deps) { d.Decisions = judgedLog(t) })
	admin := bearer(tokens["admin"])
	server := httptest.NewServer(p.Handler)
	t.Cleanup(server.Close)
	inProject, inPlane := "project:"+project+"#read", "plane#read"
	streams := map[string]struct {
		path        string
		kept, taken string
	}{
		"all-events":       {"/v1/events", "", inPlane},
		"what-events-show": {"/v1/events", inPlane, inProject},
		"project-events":   {"/v1/projects/" + project + "/events", "", inProject},
		"what-they-show":   {"/v1/projects/" + project + "/events", inProject, "project:" + project + "#operator"},
		"decisions":        {"/api/v1/decisions/events", "", "tenant:shop#admin"},
		"fleet":            {"/v1/fleet/events", "", inPlane},
	}
	ends := map[string]chan error{}
	for who, s := range streams {
		given := []string{s.taken}
		if s.kept != "" {
			given = append(given, s.kept)
		}
		cookie := openedBy(t, p, linkCode(t, p, bearer(p.person(t, who, admin, given...))))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+s.path, nil)
		require.NoError(t, err)
		r.AddCookie(cookie)
		a, err := server.Client().Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = a.Body.Close() })
		require.Equal(t, http.StatusOK, a.StatusCode)
		lines := bufio.NewReader(a.Body)
		_, err = lines.ReadString('\n') // it runs
		require.NoError(t, err)
		end := make(chan error, 1)
		ends[who] = end
		go func() {
			_, err := io.Copy(io.Discard, lines)
			end <- err
		}()
	}
	for who, s := range streams {
		p.want(http.StatusNoContent, "", p.do("DELETE", "/v1/access/principals/"+who+"/relations?relation="+url.QueryEscape(s.taken), "", admin))
	}
	for who, end := range ends {
		select {
		case err := <-end:
			require.NoError(t, err, who)
		case <-time.After(20 * time.Second):
			t.Errorf("the stream of %s goes on", who)
		}
	}
}

// streamPaths are all that is followed.
var streamPaths = []string{
	"/v1/events", "/v1/projects/" + project + "/events", "/v1/fleet/events", "/api/v1/decisions/events", "/v1/nodes/n1/events",
}

// Who asks for the headers of a stream gets them, and the connection back.
func TestWhoAsksForTheHeadersOfAStreamIsHeldByNone(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Decisions = judgedLog(t) })
	p.put("n1", `{}`)
	for _, path := range streamPaths {
		ctx, cancel := context.WithTimeout(t.Context(), waitFor)
		w := httptest.NewRecorder()
		api.New(p.deps).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodHead, path, nil))
		require.NoError(t, ctx.Err(), path)
		cancel()
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"), path)
	}
}

// A stream lasts as long as its client likes, which says nothing of how long answers take.
func TestAStreamIsNoAnswerThatTookLong(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	p := newPlane(t, func(d *api.Deps) { d.Decisions, d.Metrics = judgedLog(t), api.NewMetrics(reg) })
	p.put("n1", `{}`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range streamPaths {
		w := httptest.NewRecorder()
		api.New(p.deps).ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
	}
	p.want(http.StatusBadRequest, "bad_last_event_id", p.do("GET", "/v1/events", "", "Last-Event-ID: x"))
	families, err := reg.Gather()
	require.NoError(t, err)
	var counted []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()) == 0 {
				continue // a fault that never was
			}
			for _, l := range m.GetLabel() {
				if strings.HasPrefix(f.GetName(), "edict_http_") && strings.HasSuffix(l.GetValue(), "/events") {
					counted = append(counted, f.GetName()+" "+l.GetValue())
				}
			}
		}
	}
	require.Equal(t, []string{"edict_http_request_duration_seconds /v1/events", "edict_http_requests_total /v1/events"}, counted, "what was refused")
}

package api_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

const emptyState = `{"peers":[],"reachability":null,"policy":null,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`

func TestAStateWithNothingHasAllItsKeys(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	a := p.do("GET", "/v1/nodes/n1/state", "")
	p.want(http.StatusOK, "", a)
	require.Equal(t, emptyState, string(a.body))
	require.Equal(t, "7", a.Header.Get("Edict-Event-Id"))
}

func TestAStateFollowsTheWrite(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"}}`)
	made := p.create("web")
	a := p.do("GET", "/v1/nodes/n1/state", "")
	state := into[resource.NodeState](t, a)
	require.Equal(t, made.HeadRevisionID, state.Policy.RevisionID)
	require.Equal(t, made.Head.Rules, state.Policy.Rules)
	sum := sha256.Sum256(a.body)
	require.Equal(t, `"`+hex.EncodeToString(sum[:])+`"`, a.Header.Get("ETag"))

	t.Run("304 only for who asks", func(t *testing.T) {
		etag := a.Header.Get("ETag")
		for _, h := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
			b := p.do("GET", "/v1/nodes/n1/state", "", "If-None-Match: "+h)
			require.Equal(t, http.StatusNotModified, b.StatusCode, h)
			require.Empty(t, b.body)
			require.Equal(t, "7", b.Header.Get("Edict-Event-Id"))
		}
		p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/state", "", `If-None-Match: "x"`))
	})
	t.Run("the rows one by one", func(t *testing.T) {
		b := p.do("GET", "/v1/nodes/n1/rulesets", "")
		rows := into[resource.Items[resource.Ruleset]](t, b).Items
		require.Len(t, rows, 1)
		require.Equal(t, state.Policy.Fingerprint, fingerprint(rows[0].RulePayload))
		require.Equal(t, rows[0].Fingerprint, fingerprint(rows[0].RulePayload))
		require.Equal(t, epoch.Add(2*time.Second), rows[0].CompiledAt)
	})
	p.want(http.StatusNoContent, "", p.do("DELETE", nodes+"/n1", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/n1/state", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/n1/rulesets", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/n1/events", ""))
}

// A 404 stops an agent for good, so a worker that lags must not give one.
func TestAWorkerBehindTheLogNeverAnswers404(t *testing.T) {
	p := newPlane(t, impatient)
	p.log.Hold()
	p.do("PUT", nodes+"/n1", `{}`)
	for _, leaf := range []string{"state", "rulesets", "events"} {
		a := p.do("GET", "/v1/nodes/n1/"+leaf, "")
		p.want(http.StatusServiceUnavailable, "projection_behind", a)
		require.Equal(t, uint64(1), a.problem(t).Sequence)
	}
	p.log.Release()
	p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/state", ""))
	p.want(http.StatusServiceUnavailable, "projection_behind", p.do("GET", "/v1/nodes/n1/state?min_seq=2", ""))
	p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/state?min_seq=1", ""))
}

// Whatever a worker that lags is asked for by its id: it may have come since.
func TestNoRouteAnswers404BeforeTheWorkerHasCaughtUp(t *testing.T) {
	p := newPlane(t, impatient)
	p.put("n1", `{}`)
	p.log.Hold()
	p.do("PUT", nodes+"/n2", `{}`)
	fill := strings.NewReplacer("{project}", project, "{policy}", nowhere, "{revision}", nowhere, "{node}", "ghost")
	asked := 0
	for _, r := range api.Routes() {
		path := fill.Replace(r.Pattern)
		if r.Method != http.MethodGet || path == r.Pattern || !strings.Contains(path, "ghost") && !strings.Contains(path, nowhere) {
			continue
		}
		query := "?"
		for _, q := range r.Params {
			switch {
			case q.Name == "min_seq":
				query += "min_seq=1&"
			case q.Required:
				query += q.Name + "=" + nowhere + "&"
			}
		}
		p.want(http.StatusServiceUnavailable, "projection_behind", p.do("GET", path+query, ""))
		asked++
	}
	require.GreaterOrEqual(t, asked, 7)
}

func TestMinSeqWaitsForThatSequenceAlone(t *testing.T) {
	p := newPlane(t, impatient)
	p.put("n1", `{}`)
	p.log.Hold()
	p.do("PUT", nodes+"/n2", `{}`)
	p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/state?min_seq=1", ""))
	p.want(http.StatusServiceUnavailable, "projection_behind", p.do("GET", "/v1/nodes/n1/state", ""))
}

func TestARelayThatIsNotReadyIs503(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	p.relay.set(0, errors.New("the gate is shut"))
	for _, leaf := range []string{"state", "events"} {
		p.want(http.StatusServiceUnavailable, "starting", p.do("GET", "/v1/nodes/n1/"+leaf, ""))
	}
	p.want(http.StatusOK, "", p.do("GET", "/v1/nodes/n1/rulesets", ""))
}

func TestEventsThatCannotBeServed(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	p.put("left", `{}`)
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/left/events", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/ghost/events", ""))
	p.want(http.StatusNotAcceptable, "not_acceptable", p.do("GET", "/v1/nodes/n1/events", "", "Accept: text/event-stream;dialect=other"))
	p.want(http.StatusBadRequest, "bad_last_event_id", p.do("GET", "/v1/nodes/n1/events", "", "Last-Event-ID: 1.5"))
}

func TestAHeadRequestForEventsDoesNotLast(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	a := p.do("HEAD", "/v1/nodes/n1/events", "")
	p.want(http.StatusOK, "", a)
	require.Equal(t, "text/event-stream", a.Header.Get("Content-Type"))
}

func TestEventsAreStreamedUntilTheServerStops(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- (&api.Server{Handler: p.Handler}).Run(ctx, l) }()

	req, err := http.NewRequest("GET", fmt.Sprintf("http://%s/v1/nodes/n1/events", l.Addr()), nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", "12")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "v1", res.Header.Get("X-Plexsphere-API-Version"))
	stream := bufio.NewReader(res.Body)
	line, err := stream.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, ": hello n1 after \"12\"\n", line)
	<-p.relay.opened
	stop()
	_, err = io.ReadAll(stream)
	require.NoError(t, err, "the stream ends, it is not cut")
	require.NoError(t, <-served)
	http.DefaultClient.CloseIdleConnections()
}

func TestNodesOfOneLabelSetShareTheirBytes(t *testing.T) {
	p := newPlane(t)
	p.create("web")
	p.put("a", `{"labels":{"role":"web"}}`)
	p.put("b", `{"labels":{"role":"web"},"addresses":["10.9.9.9"]}`)
	p.put("c", `{"labels":{"role":"db","zone":"z"}}`)
	at := func(node string) string { return string(p.do("GET", "/v1/nodes/"+node+"/state", "").body) }
	require.Equal(t, at("a"), at("b"))
	require.Equal(t, at("a"), at("c"))
	before := at("a")
	made := into[resource.Page[resource.Policy]](t, p.do("GET", policies, "")).Items[0].ID
	p.want(http.StatusNoContent, "", p.do("DELETE", policies+"/"+made.String(), ""))
	require.Equal(t, emptyState, at("a"))
	require.NotEqual(t, before, at("a"))
}

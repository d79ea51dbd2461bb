package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// followLog reads a stream of the log's events frame by frame.
func (p *plane) followLog(t *testing.T, of uuid.UUID, filter url.Values, after uint64) (next func() client.LogFrame) {
	t.Helper()
	server := httptest.NewServer(p.Handler)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	frames, errs := make(chan client.LogFrame), make(chan error, 1)
	go func() {
		defer close(frames)
		for f, err := range c.Events(ctx, of, filter, after) {
			if err != nil {
				errs <- err
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range frames {
		}
	})
	return func() client.LogFrame {
		t.Helper()
		select {
		case f := <-frames:
			return f
		case err := <-errs:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("nothing came")
		}
		return client.LogFrame{}
	}
}

// The log is followed with what became of each event: from now on, from the beginning,
// after an id and since a moment, and by what an event is about.
func TestTheLogIsFollowedAsItIsFolded(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"}}`) // 1
	made := p.create("web")                  // 2
	_, _, err := p.log.Publish(t.Context(), streams.Append{Event: policy.NodeUpdated{ID: uuid.New(), Project: uuid.MustParse(other), Node: "n1"}})
	require.NoError(t, err) // 3: it is another project's
	all, live := p.followLog(t, uuid.Nil, url.Values{"since": {"2020-01-01T00:00:00Z"}}, 0), p.followLog(t, uuid.Nil, nil, 0)
	rejected := p.followLog(t, uuid.MustParse(other), url.Values{"since": {"2020-01-01T00:00:00Z"}}, 0)
	again := p.followLog(t, uuid.Nil, url.Values{"policy": {made.ID.String()}}, 1)

	e := all()
	require.Equal(t, [3]string{"applied", "n1", project}, [3]string{e.Event.Verdict, e.Event.NodeID, e.Event.ProjectID})
	e = all()
	require.Equal(t, [4]string{"policy_revision_created", "applied", made.ID.String(), "web"}, [4]string{e.Event.Type, e.Event.Verdict, e.Event.PolicyID, e.Event.Policy})
	require.Equal(t, e, again())
	require.Equal(t, uint64(2), e.Seq)
	for _, next := range []func() client.LogFrame{all, rejected} {
		e = next()
		require.Equal(t, [2]string{"rejected", "node_id_taken"}, [2]string{e.Event.Verdict, e.Event.Rejected})
	}
	for _, next := range []func() client.LogFrame{all, live, rejected, again} {
		require.Equal(t, client.LogFrame{Seq: 3}, next(), "the end is met once")
	}
	p.put("n2", `{}`)
	require.Equal(t, "n2", live().Event.NodeID)
	require.Equal(t, "n2", all().Event.NodeID)
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"mode":"audit"}`))
	require.Equal(t, uint64(5), again().Seq, "of its policy alone")

	for path, code := range map[string]string{
		"/v1/events?type=nothing": "wrong_type", "/v1/events?since=yesterday": "wrong_type", "/v1/log/seq?at=now": "wrong_type",
	} {
		p.want(http.StatusBadRequest, code, p.do("GET", path, ""))
	}
	for _, query := range []string{"?node=Web_1", "?node="} {
		p.want(http.StatusUnprocessableEntity, "invalid_node_id", p.do("GET", "/v1/events"+query, ""))
	}
	p.want(http.StatusBadRequest, "bad_last_event_id", p.do("GET", "/v1/events", "", "Last-Event-ID: x"))
	at := into[resource.LogMoment](t, p.do("GET", "/v1/log/seq?at=2020-01-01T00:00:00Z", ""))
	require.Zero(t, at.Seq)
}

// Of what there is, a stream has what its filter asks for.
func TestEventsAreChosenByWhatTheyAreAbout(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)       // 1
	made := p.create("web") // 2
	p.put("n2", `{}`)       // 3
	for text, want := range map[string][]uint64{
		"":                                     {1, 2, 3},
		"type=node_updated":                    {1, 3},
		"node=n2":                              {3},
		"node=n2&type=policy_revision_created": nil,
		"policy=" + made.ID.String():           {2},
		"project=" + project:                   {1, 2, 3},
		"project=" + other:                     nil,
	} {
		filter, err := url.ParseQuery(text + "&since=2020-01-01T00:00:00Z")
		require.NoError(t, err)
		next := p.followLog(t, uuid.Nil, filter, 0)
		var got []uint64
		frame := next()
		for ; frame.Event != nil; frame = next() {
			got = append(got, frame.Seq)
		}
		require.Equal(t, want, got, text)
		require.Equal(t, uint64(3), frame.Seq, "where the end was met")
	}
	ahead := p.followLog(t, uuid.Nil, nil, 99)
	require.Equal(t, client.LogFrame{Seq: 3}, ahead(), "who claims to be ahead is not")
}

// Who read more at another worker than this one has folded is sent none of it again.
func TestAWorkerThatLagsSendsNoEventTwice(t *testing.T) {
	a := newPlane(t)
	a.put("n1", `{}`) // 1
	a.put("n2", `{}`) // 2
	b, log := lateWorker(t, a)
	next := b.followLog(t, uuid.Nil, nil, 2)
	require.Equal(t, client.LogFrame{Seq: 2}, next())
	a.put("n3", `{}`) // 3
	log.fold()
	require.Equal(t, uint64(3), next().Seq)
}

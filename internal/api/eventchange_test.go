package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/test/gen"
)

var since2020 = url.Values{"since": {"2020-01-01T00:00:00Z"}}

func TestAnEventSaysWhatItChanged(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"},"addresses":["10.0.0.1"]}`) // 1
	p.put("n1", `{"labels":{"role":"web"},"addresses":["10.0.0.2"]}`) // 2
	p.put("n1", `{"labels":{"role":"db","zone":"a"}}`)                // 3
	made := p.create("web")                                           // 4
	path := policies + "/" + made.ID.String()
	rules := `[{"action":"deny","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":5432,"to":5432}}]`
	p.want(http.StatusOK, "", p.do("PATCH", path, `{"selector":{"source":"role=app","destination":"role=db"},"rules":`+rules+`}`)) // 5
	p.want(http.StatusOK, "", p.do("PATCH", path, `{"rules":`+webRules+`}`))                                                       // 6
	p.want(http.StatusNoContent, "", p.do("DELETE", nodes+"/n1", ""))                                                              // 7
	next := p.followLog(t, uuid.Nil, since2020, 0)
	for _, want := range []resource.NodeChange{
		{Created: true, After: map[string]string{"role": "web"}, Addresses: []string{"10.0.0.1"}},
		{Before: map[string]string{"role": "web"}, After: map[string]string{"role": "web"}, Addresses: []string{"10.0.0.2"}},
		{Before: map[string]string{"role": "web"}, After: map[string]string{"role": "db", "zone": "a"}},
	} {
		e := next().Event
		require.Equal(t, want, *e.Change.Node, e.Seq)
		require.Nil(t, e.Change.Policy)
	}
	e := next().Event
	require.Nil(t, e.Change.Policy.ParentRevisionID)
	require.Equal(t, &resource.Selectors{After: resource.Selector{Source: "role=web", Destination: "role=db"}}, e.Change.Policy.Selectors)
	require.Len(t, e.Change.Policy.Rules.Added, 1)
	e = next().Event
	require.Equal(t, made.HeadRevisionID, *e.Change.Policy.ParentRevisionID)
	require.Equal(t, "role=web", e.Change.Policy.Selectors.Before.Source)
	require.Equal(t, "role=app", e.Change.Policy.Selectors.After.Source)
	require.Len(t, e.Change.Policy.Rules.Modified, 1)
	e = next().Event
	require.Nil(t, e.Change.Policy.Selectors, "they stay")
	e = next().Event
	require.Equal(t, resource.NodeChange{Removed: true, Before: map[string]string{"role": "db", "zone": "a"}}, *e.Change.Node)
	require.Nil(t, e.Nodes, "nobody recorded it")
}

// A head of a policy that is gone is shown to nobody, and what was refused changed nothing.
func TestAnEventWhoseChangeIsNotKnownHasNone(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	p.want(http.StatusNoContent, "", p.do("DELETE", policies+"/"+made.ID.String(), ""))
	p.log.Junk("edict.log."+project+".node.n1", "junk")
	next := p.followLog(t, uuid.Nil, since2020, 0)
	for range 3 {
		require.Nil(t, next().Event.Change)
	}
}

// How many nodes an event was sent to is known of what was folded while somebody served them.
func TestAnEventSaysHowManyNodesItWasSentTo(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	p.put("n1", `{"labels":{"role":"web"}}`)
	p.fold.Feed(wanting{})
	p.create("a") // 2
	for i := range 70 {
		p.put(fmt.Sprintf("m%d", i), `{"labels":{"role":"web"}}`) // 3 to 72
	}
	made := p.create("b")                                                               // 73
	p.put("m1", `{"labels":{"role":"web","zone":"a"}}`)                                 // 74: its rules stay
	p.put("m2", `{}`)                                                                   // 75: it loses two
	p.want(http.StatusNoContent, "", p.do("DELETE", policies+"/"+made.ID.String(), "")) // 76
	sent := map[uint64]int{}
	next := p.followLog(t, uuid.Nil, since2020, 0)
	for f := next(); f.Event != nil; f = next() {
		if f.Event.Nodes != nil {
			sent[f.Seq] = *f.Event.Nodes
		}
	}
	_, known := sent[1]
	require.False(t, known)
	require.Equal(t, []int{1, 1, 71, 0, 1, 70}, []int{sent[2], sent[3], sent[73], sent[74], sent[75], sent[76]})
}

// Who may not read a policy follows its project's events, and sees nothing of its rules.
func TestAnEventShowsRulesToWhoMayReadThem(t *testing.T) {
	p, tokens := guarded(t, roles)
	admin := bearer(tokens["admin"])
	p.want(http.StatusCreated, "", p.do("POST", policies, draft("web"), admin))
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{"labels":{"role":"web"}}`, admin))
	server := httptest.NewServer(p.Handler)
	t.Cleanup(server.Close)
	for who, want := range map[string][2]bool{
		"admin": {true, true}, "reader": {false, true}, "viewer": {true, true}, "operator": {false, true}, "one-managed": {true, true},
	} {
		of := home
		if who == "reader" {
			of = uuid.Nil
		}
		c, err := client.New(server.URL, client.Options{HTTP: &http.Client{Transport: withToken(tokens[who])}})
		require.NoError(t, err)
		var got [2]bool
		for f, err := range c.Events(t.Context(), of, since2020, 0) {
			require.NoError(t, err, who)
			if f.Event == nil {
				break
			}
			got[f.Seq-1] = f.Event.Change != nil
		}
		require.Equal(t, want, got, who)
	}
}

// wanting is a feed for which somebody wants edges.
type wanting struct{}

func (wanting) Wanted() bool         { return true }
func (wanting) Take(projector.Batch) {}

// withToken sends requests with a bearer token.
type withToken string

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

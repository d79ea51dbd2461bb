package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
)

const decisions = "/api/v1/decisions"

// decided is a decision log in memory.
type decided struct {
	mu    sync.Mutex
	all   []streams.Message
	first uint64
	more  chan struct{} // closed when there is more; nil: nobody waits
	gone  bool          // it cannot be followed any more
	reads int
	// followers are those who follow it now; all of them, since the log was made.
	followers, followed int
	down                error // what its server answers; nil: it does
}

func (l *decided) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		l.count(1)
		defer l.count(-1)
		for next := from; ; {
			l.mu.Lock()
			if l.more == nil {
				l.more = make(chan struct{})
			}
			found, more, gone := l.all[next-1:], l.more, l.gone
			l.mu.Unlock()
			if gone {
				yield(nil, errors.New("it is gone"))
				return
			}
			if len(found) > 0 {
				next += uint64(len(found))
				if !yield(found, nil) {
					return
				}
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *decided) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers += n
	l.followed += max(n, 0)
}

// put appends, and wakes who waits. The caller has mu.
func (l *decided) put(text []byte) {
	l.all = append(l.all, streams.Message{Seq: uint64(len(l.all) + 1), Body: text})
	l.wake()
}

func (l *decided) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

func (l *decided) add(t testing.TB, d resource.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := uint64(len(l.all) + 1)
	d.DecisionID, d.Time, d.RequestPayload = fmt.Sprint("d", seq), epoch.Add(time.Duration(seq)*time.Minute), json.RawMessage(`{"a":1}`)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	l.put(text)
}

func (l *decided) State(context.Context) (streams.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return streams.State{First: max(l.first, 1), Last: uint64(len(l.all))}, l.down
}

func (l *decided) Read(_ context.Context, from, to uint64) iter.Seq2[[]streams.Message, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	found := l.all[from-1 : min(to, uint64(len(l.all)))]
	return func(yield func([]streams.Message, error) bool) { yield(found, nil) }
}

// decisionsOf is a log in which ana of shop and ben of lab asked by turns.
func decisionsOf(t testing.TB, n int) *decided {
	l := &decided{}
	for i := range n {
		d := resource.Decision{Outcome: "approved", UserID: "ana", TenantID: "shop"}
		if i%2 == 1 {
			d = resource.Decision{Outcome: "rejected", UserID: "ben", TenantID: "lab", Policy: &resource.Deciding{ID: "p1", Name: "no"}, Reason: "no"}
		}
		l.add(t, d)
	}
	return l
}

func (p *plane) decisionSeqs(query string, headers ...string) (seqs []uint64) {
	p.t.Helper()
	for cursor := ""; ; {
		a := p.do("GET", decisions+"?"+query+cursor, "", headers...)
		p.want(http.StatusOK, "", a)
		page := into[resource.Page[resource.Decision]](p.t, a)
		for _, d := range page.Items {
			seqs = append(seqs, d.Seq)
		}
		if page.NextCursor == nil {
			return seqs
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

func TestDecisionsAreListedNewestFirst(t *testing.T) {
	gen.Unraced()
	log := decisionsOf(t, 6)
	p := newPlane(t, func(d *api.Deps) { d.Decisions = log })
	for _, c := range []struct {
		query string
		want  []uint64
	}{
		{"", []uint64{6, 5, 4, 3, 2, 1}},
		{"limit=2", []uint64{6, 5, 4, 3, 2, 1}},
		{"limit=1&user=ana", []uint64{5, 3, 1}},
		{"tenant=lab", []uint64{6, 4, 2}},
		{"outcome=rejected&user=ana", nil},
		{"policy=no", []uint64{6, 4, 2}},
		{"policy=p1&limit=2", []uint64{6, 4, 2}},
		{"policy=p2", nil},
		{"decision=d3", []uint64{3}},
		{"since=2026-11-20T12:05:00Z", []uint64{6, 5}},
		{"until=2026-11-20T12:05:00Z", []uint64{4, 3, 2, 1}},
	} {
		c.query = strings.NewReplacer("2026-11-20T12:05:00Z", epoch.Add(5*time.Minute).Format(time.RFC3339)).Replace(c.query)
		require.Equal(t, c.want, p.decisionSeqs(c.query), c.query)
	}
	log.first = 4
	require.Equal(t, []uint64{6, 5, 4}, p.decisionSeqs("limit=2"), "older ones were dropped")
	p.want(400, "wrong_type", p.do("GET", decisions+"?outcome=fine", ""))
	p.want(400, "wrong_type", p.do("GET", decisions+"?since=yesterday", ""))
	p.want(404, "no_decision_log", newPlane(t).do("GET", decisions, ""))
}

// judgedLog is a log of three decisions in which p took part, the first of a worker that
// did not name those who judged.
func judgedLog(t testing.TB) *decided {
	l := &decided{}
	global := resource.Judgement{ID: "p1", Name: "p", Level: "Global", Version: 7, Outcome: "applied"}
	tenant := resource.Judgement{ID: "q1", Name: "q", Level: "Tenant", Owned: true, Version: 8, Outcome: "no_opinion"}
	user := resource.Judgement{ID: "r1", Name: "r", Level: "User", Owned: true, Version: 9, Outcome: "applied"}
	anybody := resource.Judgement{ID: "s1", Name: "s", Level: "User", Version: 10, Outcome: "applied"}
	ana := resource.Decision{Outcome: "approved", UserID: "ana", TenantID: "shop"}
	l.add(t, ana)
	ana.Policies = []resource.Judgement{global, tenant, user, anybody}
	l.add(t, ana)
	ana.Policies = nil
	ana.Shadows = []resource.ShadowDecision{{ID: "p1", Name: "p", Level: "Global", Outcome: "rejected", Reason: "one day"}, {ID: "old", Name: "old", Outcome: "rejected"}}
	l.add(t, ana)
	return l
}

func TestAPolicysDecisionsAreThoseInWhichItTookPart(t *testing.T) {
	log := judgedLog(t)
	p := newPlane(t, func(d *api.Deps) { d.Decisions = log })
	require.Equal(t, []uint64{3, 2}, p.decisionSeqs("policy=p"))
	require.Equal(t, []uint64{3, 2}, p.decisionSeqs("policy=p1&limit=1"))
	require.Equal(t, []uint64{2}, p.decisionSeqs("policy=q&outcome=approved"))
	require.Equal(t, []uint64{3}, p.decisionSeqs("policy=old"))
	require.Equal(t, []uint64{3, 2, 1}, p.decisionSeqs(""), "one of a worker that named none stays readable")
	shown := into[resource.Page[resource.Decision]](t, p.do("GET", decisions+"?policy=q", "")).Items[0].Policies
	require.Equal(t, resource.Judgement{ID: "q1", Name: "q", Level: "Tenant", Owned: true, Version: 8, Outcome: "no_opinion"}, shown[1])
}

func TestADecisionNamesThePoliciesThatItsReaderMaySee(t *testing.T) {
	p, tokens := guarded(t, map[string][]string{"root": {"plane#admin"}, "reader": {"plane#read"}, "boss": {"tenant:shop#admin"}, "ana": {}}, func(d *api.Deps) { d.Decisions = judgedLog(t) })
	for who, want := range map[string][]string{"root": {"p", "q", "r", "s"}, "reader": {"p", "q", "r", "s"}, "boss": {"q"}, "ana": {"r"}} {
		var names []string
		page := into[resource.Page[resource.Decision]](t, p.do("GET", decisions, "", "Authorization: Bearer "+tokens[who]))
		for _, x := range page.Items[1].Policies {
			names = append(names, x.Name)
		}
		require.Equal(t, want, names, who)
		if len(want) < 4 {
			require.Empty(t, page.Items[0].Shadows, who)
			require.Empty(t, p.decisionSeqs("policy=p", "Authorization: Bearer "+tokens[who]), "that it took part is not told either")
		}
	}
}

func TestManyDecisionsAreReadInPieces(t *testing.T) {
	gen.Unraced()
	log := decisionsOf(t, 1200)
	log.add(t, resource.Decision{Outcome: "timeout"})
	for range 1100 {
		log.add(t, resource.Decision{Outcome: "approved"})
	}
	p := newPlane(t, func(d *api.Deps) { d.Decisions, d.Looked = log, 1000 })
	require.Equal(t, []uint64{1201}, p.decisionSeqs("outcome=timeout"))
	page := into[resource.Page[resource.Decision]](t, p.do("GET", decisions+"?outcome=timeout", ""))
	require.Empty(t, page.Items, "the first page has read as much as a page may")
	require.NotNil(t, page.NextCursor)
}

func TestAPageOfLargeDecisionsIsBounded(t *testing.T) {
	log := &decided{}
	var want []uint64
	for seq := uint64(12); seq > 0; seq-- {
		want = append(want, seq)
		log.add(t, resource.Decision{Outcome: "rejected", Reason: strings.Repeat("x", 1<<13)})
	}
	p := newPlane(t, func(d *api.Deps) { d.Decisions, d.DecisionBytes = log, 8<<13 })
	first := p.do("GET", decisions+"?limit=30", "")
	require.Less(t, len(first.body), 10<<13)
	page := into[resource.Page[resource.Decision]](t, first)
	require.NotNil(t, page.NextCursor)
	var got []uint64
	for _, d := range page.Items {
		got = append(got, d.Seq)
	}
	require.Equal(t, want, append(got, p.decisionSeqs("limit=30&cursor="+*page.NextCursor)...), "the others follow")
	require.Equal(t, []uint64{7}, p.decisionSeqs("decision=d7&limit=30"))
}

func TestTenantsSeeTheirOwnDecisions(t *testing.T) {
	gen.Unraced()
	log := decisionsOf(t, 4)
	p, tokens := guarded(t, map[string][]string{"root": {"plane#admin"}, "reader": {"plane#read"}, "boss": {"tenant:shop#admin"}, "ben": {}, "eve": {}}, func(d *api.Deps) { d.Decisions = log })
	for who, want := range map[string][]uint64{"root": {4, 3, 2, 1}, "reader": {4, 3, 2, 1}, "boss": {3, 1}, "ben": {4, 2}, "eve": nil} {
		require.Equal(t, want, p.decisionSeqs("limit=1", "Authorization: Bearer "+tokens[who]), who)
	}
}

func TestDecisionsAreFollowed(t *testing.T) {
	log := decisionsOf(t, 4)
	p := newPlane(t, func(d *api.Deps) { d.Decisions = log })
	server := httptest.NewServer(p.Handler)
	t.Cleanup(server.Close) // behind the streams
	open := func(query, after string) *bufio.Scanner {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+decisions+"/events"+query, nil)
		require.NoError(t, err)
		if after != "" {
			req.Header.Set("Last-Event-ID", after)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		return bufio.NewScanner(res.Body)
	}
	next := func(s *bufio.Scanner) (id string, d resource.Decision) {
		t.Helper()
		for s.Scan() {
			if text, ok := strings.CutPrefix(s.Text(), "id: "); ok {
				id = text
			}
			if text, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(text), &d))
				return id, d
			}
		}
		t.Fatal("the stream has ended")
		return "", d
	}
	live, again := open("?user=ana", ""), open("", "2")
	for _, want := range []string{"3", "4"} {
		id, d := next(again)
		require.Equal(t, want, id)
		require.Equal(t, "d"+want, d.DecisionID)
	}
	log.add(t, resource.Decision{Outcome: "approved", UserID: "ben"})
	log.add(t, resource.Decision{Outcome: "approved", UserID: "ana"})
	id, _ := next(live)
	require.Equal(t, "6", id, "of ana alone")
	id, _ = next(again)
	require.Equal(t, "5", id)
	p.want(400, "bad_last_event_id", p.do("GET", decisions+"/events", "", "Last-Event-ID: x"))
}

// Many who follow cost the log one follower, and none when they are gone.
func TestManyWhoFollowDecisionsAreOneFollower(t *testing.T) {
	log := decisionsOf(t, 1200)
	p := newPlane(t, func(d *api.Deps) { d.Decisions = log })
	server := httptest.NewServer(p.Handler)
	defer server.Close()
	var streams []*bufio.Scanner
	ctx, cancel := context.WithCancel(t.Context())
	for _, after := range []string{"", "1", "1200"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+decisions+"/events", nil)
		require.NoError(t, err)
		if after != "" {
			req.Header.Set("Last-Event-ID", after)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		s := bufio.NewScanner(res.Body)
		require.True(t, s.Scan())
		streams = append(streams, s)
	}
	log.add(t, resource.Decision{Outcome: "approved"})
	for i, first := range []int{1201, 2, 1201} {
		for want := first; want <= 1201; {
			require.True(t, streams[i].Scan())
			if id, ok := strings.CutPrefix(streams[i].Text(), "id: "); ok {
				require.Equal(t, fmt.Sprint(want), id)
				for !strings.HasPrefix(streams[i].Text(), "data: ") {
					require.True(t, streams[i].Scan())
				}
				want++
			}
		}
	}
	log.mu.Lock()
	require.Equal(t, 1, log.followers)
	require.Equal(t, 1, log.followed)
	require.Equal(t, 3, log.reads, "only who was behind reads the log, in pieces")
	log.gone = true
	log.wake()
	log.mu.Unlock()
	for _, s := range streams {
		for s.Scan() {
			require.NotContains(t, s.Text(), "data:")
		}
	}
	cancel()
	server.Close()
	log.mu.Lock()
	defer log.mu.Unlock()
	require.Zero(t, log.followers)
}

package api_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Follow yields what the log has, in small batches.
func (l *memLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		l.mu.Lock()
		msgs := slices.Clone(l.msgs[max(from, 1)-1:])
		l.mu.Unlock()
		for batch := range slices.Chunk(msgs, 7) {
			if !yield(batch, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

// historyOf folds a log again from its first event; what it has before begins is as if it was
// removed.
func historyOf(t testing.TB, log snapshot.Log, opt projector.Options, begins uint64) *snapshot.History {
	h, err := snapshot.NewHistory(snapshot.HistoryOptions{
		Dir: t.TempDir(), Every: 1 << 40,
		Nearest: func(_ context.Context, seq uint64) (snapshot.Beginning, error) {
			if seq < begins {
				return snapshot.Beginning{}, &streams.CompactedError{Seq: seq, Origin: begins}
			}
			return snapshot.Beginning{Begin: func(_ context.Context, dir string, _ uint64) (*snapshot.Replayed, error) {
				return snapshot.Begin(log, dir, opt.On(vfs.NewMem()))
			}}, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// said is an answer without what is of the request alone.
func said(a answer) string {
	h := maps.Clone(a.Header)
	for _, name := range []string{"X-Correlation-Id", "Date"} {
		delete(h, name)
	}
	return fmt.Sprint(a.StatusCode, h, string(a.body))
}

// questions are what is asked about a node.
func questions(id, peer string) []string {
	return []string{
		"/v1/nodes/" + id + "/state", "/v1/nodes/" + id + "/rulesets", "/v1/nodes/" + id + "/datapath", "/v1/nodes/" + id + "/datapath?mode=audit",
		"/v1/nodes/" + id + "/explain?direction=ingress&protocol=tcp&port=443&peer=" + peer,
		"/v1/nodes/" + id + "/explain?direction=egress&protocol=icmp&peer=10.0.0.1",
	}
}

// withAt asks about a moment; a diff has its own.
func withAt(path string, seq uint64) string {
	switch {
	case strings.Contains(path, "/diff"):
		return path
	case strings.Contains(path, "?"):
		return path + "&at=" + fmt.Sprint(seq)
	}
	return path + "?at=" + fmt.Sprint(seq)
}

var pastSteps = flag.Int("past.steps", 24, "steps of the history of TestThePastIsWhatWasAnsweredThen")

// Whatever happened since, what a plane answers about a moment of the past is what a plane
// answered whose log ended there, byte for byte; and what became of a node between two
// moments is what differs between the answers.
func TestThePastIsWhatWasAnsweredThen(t *testing.T) {
	gen.Unraced()
	seed := rand.Uint64()
	g := gen.New(seed)
	var msgs []streams.Message
	var nodes, made []string
	for _, e := range gen.NewScribe(project, seed).WriteAll(g.WithRollouts(g.History(g.World(6, 6), *pastSteps))) {
		msgs = append(msgs, streams.Message{Subject: e.Subject, Body: e.Body})
		switch s, ok := wire.ParseSubject(e.Subject); {
		case ok && s.Family == policy.FamilyNode && !slices.Contains(nodes, s.ID):
			nodes = append(nodes, s.ID)
		case ok && s.Family == policy.FamilyPolicy && !slices.Contains(made, s.ID):
			made = append(made, s.ID)
		}
	}
	nodes = nodes[:min(len(nodes), 4)]
	const every = 15
	then := newPlane(t)
	type asked struct{ node, path string }
	want := map[uint64]map[asked]string{}
	rows := map[uint64]map[string]string{}
	p := newPlane(t)
	for i, m := range msgs {
		then.log.store(m.Subject, m.Body)
		p.log.store(m.Subject, m.Body)
		seq := uint64(i + 1)
		if i%every != 0 && i != len(msgs)-1 {
			continue
		}
		then.relay.set(policy.EndOf(0, seq), nil)
		want[seq], rows[seq] = map[asked]string{}, map[string]string{}
		for _, id := range made[:min(len(made), 4)] {
			path := policies + "/" + id
			want[seq][asked{id, path}] = said(then.do("GET", path, "", "X-Correlation-Id: one"))
		}
		then.counted(p, seq)
		for _, id := range nodes {
			for _, path := range questions(id, nodes[0]) {
				a := then.do("GET", path, "", "X-Correlation-Id: one")
				want[seq][asked{id, path}] = said(a)
				if path == "/v1/nodes/"+id+"/rulesets" {
					rows[seq][id] = string(a.body)
				}
			}
		}
	}
	cuts := slices.Collect(maps.Keys(want))
	rand.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
	for _, seq := range cuts {
		for q, wanted := range want[seq] {
			require.Equal(t, wanted, said(p.do("GET", withAt(q.path, seq), "", "X-Correlation-Id: one")), "seed %d: %s at %d of %d", seed, q.path, seq, len(msgs))
		}
	}
	slices.Sort(cuts)
	for i, from := range cuts[:len(cuts)-1] {
		for _, id := range nodes {
			p.differs(id, from, cuts[i+1], rows, fmt.Sprintf("seed %d", seed))
		}
	}
}

// differs holds a diff against the rulesets of both moments.
func (p *plane) differs(id string, from, to uint64, rows map[uint64]map[string]string, why string) {
	p.t.Helper()
	type row struct{ revision, fingerprint string }
	read := func(seq uint64) map[string]row {
		out := map[string]row{}
		for _, r := range rulesetsIn(p.t, rows[seq][id]) {
			out[r.PolicyID.String()] = row{r.RevisionID.String(), r.Fingerprint}
		}
		return out
	}
	a := p.do("GET", fmt.Sprintf("/v1/nodes/%s/diff?from=%d&to=%d", id, from, to), "")
	if a.StatusCode == http.StatusNotFound {
		require.Empty(p.t, read(from), why)
		require.Empty(p.t, read(to), why)
		return
	}
	p.want(http.StatusOK, "", a)
	d := into[resource.NodeDiff](p.t, a)
	before, after := read(from), read(to)
	for _, r := range d.Rows {
		key := r.PolicyID.String()
		was, had := before[key]
		is, has := after[key]
		require.Equal(p.t, had, r.Before != nil, why)
		require.Equal(p.t, has, r.After != nil, why)
		require.NotEqual(p.t, had && has && was == is, true, why)
		require.Equal(p.t, map[[2]bool]string{{true, true}: "changed", {false, true}: "added", {true, false}: "removed"}[[2]bool{had, has}], r.Change, why)
		if d.To.Facts != nil {
			require.NotNil(p.t, r.Event, "%s: %s of %s between %d and %d", why, r.Change, id, from, to)
			require.Greater(p.t, r.Event.Seq, from, why)
			require.LessOrEqual(p.t, r.Event.Seq, to, why)
			require.NotEmpty(p.t, r.Event.Type)
		}
		delete(before, key)
		delete(after, key)
	}
	require.Equal(p.t, before, after, "%s: %s between %d and %d", why, id, from, to)
}

// A moment is a sequence or a time, of the log as it is now.
func TestAMomentOfThePast(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.History = historyOf(t, d.Log.(*memLog), memOptions, 2)
		d.Clock = func() time.Time { return epoch.Add(24 * time.Hour) }
	})
	p.do("PUT", "/v1/projects/"+project+"/nodes/n1", `{"labels":{"role":"web"},"addresses":["10.0.0.1"]}`)
	p.do("PUT", "/v1/projects/"+project+"/nodes/n1", `{"labels":{"role":"db"},"addresses":["10.0.0.1"]}`)
	p.do("POST", "/v1/projects/"+project+"/policies", draft("web"))
	p.do("DELETE", "/v1/projects/"+project+"/nodes/n1", "")
	sent := policy.NewEventID(p.fold.Base(), 3, 0) // what a node was sent of event 3
	for at, want := range map[string]struct {
		status int
		code   string
		detail string
	}{
		"2": {200, "", ""}, "3": {200, "", ""}, "2026-11-20T12:00:03.5Z": {200, "", ""},
		"4":                           {404, "node_not_found", ""},
		"5":                           {400, "not_yet", "ends at 4"},
		sent.String():                 {400, "not_yet", "its log sequence, 3, is meant here"},
		"1":                           {410, "log_compacted", "begins at 2"},
		"2026-11-20T12:00:01.5Z":      {410, "log_compacted", ""},
		"2026-12-20T12:00:00Z":        {400, "not_yet", "ends at event 4"},
		"yesterday":                   {400, "wrong_type", ""},
		"2026-11-20T12:00:03.5+00:00": {400, "wrong_type", "the + of an offset as %2B"},
		"":                            {400, "wrong_type", ""},
		"3&min_seq=3":                 {400, "wrong_type", "one of them"},
	} {
		a := p.do("GET", "/v1/nodes/n1/state?at="+at, "")
		p.want(want.status, want.code, a)
		require.Contains(t, string(a.body), want.detail, at)
	}
	for _, path := range append(questions("n1", "10.0.0.1"), "/v1/nodes/n1/diff?from=1", policies+"/"+nowhere, "/v1/nodes:summary", nodes+":summary?by=role") {
		p.want(http.StatusGone, "log_compacted", p.do("GET", withAt(path, 1), ""))
	}
	p.want(http.StatusUnprocessableEntity, "required", p.do("GET", "/v1/nodes/n1/diff", ""))
	p.want(http.StatusBadRequest, "wrong_type", p.do("GET", "/v1/nodes/n1/diff?from=3&to=2", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/n2/diff?from=2", ""))
	d := into[resource.NodeDiff](t, p.do("GET", "/v1/nodes/n1/diff?from=2", ""))
	require.Nil(t, d.To.Facts)
	require.Equal(t, "db", d.From.Facts.Labels["role"])
	etag := p.do("GET", "/v1/nodes/n1/state?at=3", "").Header.Get("ETag")
	p.want(http.StatusNotModified, "", p.do("GET", "/v1/nodes/n1/state?at=3", "", "If-None-Match: "+etag))

	none := newPlane(t, func(d *api.Deps) { d.History = nil })
	p.want(http.StatusServiceUnavailable, "log_unavailable", none.do("GET", "/v1/nodes/n1/state?at=0", ""))
}

// rulesetsIn reads an answer; a problem has none.
func rulesetsIn(t testing.TB, body string) []resource.Ruleset {
	var out resource.Items[resource.Ruleset]
	require.NoError(t, json.Unmarshal([]byte(body), &out))
	return out.Items
}

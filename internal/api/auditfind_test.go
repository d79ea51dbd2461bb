package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// seqs asks for the audit, page by page, and says in how many.
func (p *plane) seqs(path, cursor string, header ...string) (seqs []uint64, pages int) {
	p.t.Helper()
	at, err := url.Parse(path)
	require.NoError(p.t, err)
	for {
		a := p.do("GET", at.String(), "", header...)
		p.want(http.StatusOK, "", a)
		page := into[resource.Page[resource.AuditEntry]](p.t, a)
		for _, e := range page.Items {
			seqs = append(seqs, e.Seq)
		}
		pages++
		if page.NextCursor == nil {
			return seqs, pages
		}
		q := at.Query()
		q.Set(cursor, *page.NextCursor)
		at.RawQuery = q.Encode()
	}
}

func TestTheAuditIsReadFromBothEndsAndFiltered(t *testing.T) {
	p := newPlane(t)
	ana := "X-Edict-Principal: ana"
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{}`, ana))                       // 1
	p.put("n2", `{}`)                                                                         // 2
	made := p.create("web", ana)                                                              // 3
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/n3", `{}`, ana)) // 4
	p.want(http.StatusNoContent, "", p.do("DELETE", policies+"/"+made.ID.String(), "", ana))  // 5
	for query, want := range map[string][]uint64{
		"?limit=2":                                            {1, 2, 3, 4, 5},
		"?limit=2&order=asc&after=2":                          {3, 4, 5},
		"?limit=200&before=3":                                 {1, 2},
		"?principal=ana&limit=1":                              {1, 3, 4, 5},
		"?type=node_updated&limit=50":                         {1, 2, 4},
		"?project=" + other + "&limit=50":                     {4},
		"?type=node_updated&principal=ana&project=" + project: {1},
		"?since=2026-11-20T12:00:02Z":                         {3, 4, 5},
		"?until=2026-11-20T12:00:02Z":                         {1, 2},
		"?since=2026-11-20T12:00:01Z&until=2026-11-20T12:00:03.5Z&principal=ana": {3},
		"?until=2020-01-01T00:00:00Z":                                            nil,
		"?after=9":                                                               nil,
	} {
		got, _ := p.seqs("/v1/audit"+query, "after")
		require.Equal(t, want, got, query)
	}
	for query, want := range map[string][]uint64{
		"?order=desc&limit=2":                            {5, 4, 3, 2, 1},
		"?order=desc&limit=1&principal=ana":              {5, 4, 3, 1},
		"?order=desc&limit=2&after=2":                    {5, 4, 3},
		"?order=desc&limit=50&type=node_updated":         {4, 2, 1},
		"?order=desc&until=2026-11-20T12:00:04Z":         {4, 3, 2, 1},
		"?order=desc&before=1":                           nil,
		"?order=desc&since=2026-11-20T12:00:03Z&limit=1": {5, 4},
	} {
		got, _ := p.seqs("/v1/audit"+query, "before")
		require.Equal(t, want, got, query)
	}
	for _, e := range into[resource.Page[resource.AuditEntry]](t, p.do("GET", "/v1/audit", "")).Items {
		slug := map[bool]string{true: "web"}[e.Seq == 3 || e.Seq == 5]
		require.Equal(t, slug, e.Policy, "the policy's slug, though it is gone")
	}
	for query, code := range map[string]string{
		"?order=up": "wrong_type", "?type=nothing": "wrong_type", "?since=yesterday": "wrong_type", "?before=x": "wrong_type",
	} {
		p.want(http.StatusBadRequest, code, p.do("GET", "/v1/audit"+query, ""))
	}
}

// A search that finds little ends after many events, and says where it goes on.
func TestASearchOfTheAuditIsBounded(t *testing.T) {
	gen.Unraced()
	const events = 4500
	p := newPlane(t, func(d *api.Deps) { d.Looked = 2000 })
	p.log.Hold() // so that they are folded at once
	for i := range events {
		e := policy.NodeUpdated{ID: uuid.New(), Project: uuid.MustParse(project), Node: policy.NodeID(fmt.Sprintf("n%d", i%7))}
		who := ""
		if i == 0 || i == events-1 {
			who = "ana"
		}
		_, _, err := p.log.Publish(t.Context(), streams.Append{Event: e, Bulk: true, Principal: who})
		require.NoError(t, err)
	}
	p.log.Release()
	for order, want := range map[string][]uint64{"asc": {1, events}, "desc": {events, 1}} {
		got, pages := p.seqs("/v1/audit?principal=ana&order="+order, map[string]string{"asc": "after", "desc": "before"}[order])
		require.Equal(t, want, got)
		require.Equal(t, 3, pages)
	}
}

func TestALogThatBeginsLaterIsReadToItsBeginning(t *testing.T) {
	reads := 0
	p := newPlane(t, func(d *api.Deps) {
		d.Log = cutLog{d.Log.(*memLog)}
		trail := d.Trail
		d.Trail = func(ctx context.Context, after uint64, limit int) ([]api.Trailed, error) {
			reads++
			return trail(ctx, after, limit)
		}
	})
	for range 5 {
		p.put("n1", fmt.Sprintf(`{"labels":{"a":"v%d"}}`, p.log.Len()))
	}
	got, _ := p.seqs("/v1/audit?order=desc&limit=1", "before")
	require.Equal(t, []uint64{5, 4}, got)
	require.Equal(t, 2, reads)
}

// cutLog begins with its fourth event.
type cutLog struct{ *memLog }

func (l cutLog) State(ctx context.Context) (streams.State, error) {
	s, err := l.memLog.State(ctx)
	s.First = 4
	return s, err
}

// Whoever sees one project reads its audit, and nobody else's.
func TestTheAuditOfAProjectIsShownToWhoSeesIt(t *testing.T) {
	p, tokens := guarded(t, roles)
	for _, path := range []string{nodes + "/n1", "/v1/projects/" + other + "/nodes/n2"} {
		p.want(http.StatusCreated, "", p.do("PUT", path, `{}`, bearer(tokens["admin"])))
	}
	viewer := bearer(tokens["viewer"])
	got, _ := p.seqs("/v1/projects/"+project+"/audit?order=desc", "before", viewer)
	require.Equal(t, []uint64{1}, got)
	p.want(http.StatusNotFound, "project_not_found", p.do("GET", "/v1/projects/"+other+"/audit", "", viewer))
	p.want(http.StatusForbidden, "forbidden", p.do("GET", "/v1/audit?project="+project, "", viewer))
	p.want(http.StatusBadRequest, "unknown_parameter", p.do("GET", "/v1/projects/"+project+"/audit?project="+other, "", viewer))
	require.Equal(t, 2*time.Second, p.log.msgs[1].Time.Sub(epoch))
}

package api_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/gen"
)

func TestANodeIsNewOnceAndEqualFactsWriteNothing(t *testing.T) {
	p := newPlane(t)
	facts := `{"labels":{"role":"web"},"addresses":["10.0.0.1"]}`
	a := p.do("PUT", nodes+"/n1", facts)
	p.want(http.StatusCreated, "", a)
	require.Equal(t, uint64(1), into[resource.Node](t, a).Version)

	b := p.do("PUT", nodes+"/n1", `{"addresses":["10.0.0.1"],"labels":{"role":"web"}}`)
	p.want(http.StatusOK, "", b)
	require.Equal(t, string(a.body), string(b.body))
	require.Equal(t, 1, p.log.Len())

	c := p.do("PUT", nodes+"/n1", `{"labels":{"role":"db"}}`)
	p.want(http.StatusOK, "", c)
	require.Equal(t, uint64(2), into[resource.Node](t, c).Version)
	require.Equal(t, string(c.body), string(p.do("GET", nodes+"/n1", "").body))

	p.want(http.StatusNoContent, "", p.do("DELETE", nodes+"/n1", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("DELETE", nodes+"/n1", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", nodes+"/n1", ""))
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", facts))
}

func TestANodeBelongsToTheProjectThatNamedIt(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{}`)
	theirs := "/v1/projects/" + other + "/nodes"
	p.want(http.StatusConflict, "node_id_taken", p.do("PUT", theirs+"/n1", `{}`))
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", theirs+"/n1", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("DELETE", theirs+"/n1", ""))
	require.Equal(t, 1, p.log.Len(), "nothing is written")
}

func TestAKeyedPutAnswersAsTheFirstDid(t *testing.T) {
	p := newPlane(t)
	a := p.do("PUT", nodes+"/n1", `{"labels":{"a":"1"}}`, "Idempotency-Key: k")
	p.want(http.StatusCreated, "", a)
	p.put("n1", `{"labels":{"a":"2"}}`)
	b := p.do("PUT", nodes+"/n1", `{"labels":{"a":"1"}}`, "Idempotency-Key: k")
	p.want(http.StatusCreated, "", b)
	require.Equal(t, string(a.body), string(b.body))
	require.Equal(t, 2, p.log.Len())
}

// A worker that lags must not call facts unchanged that were changed since.
func TestEqualFactsAreComparedWithTheLogsHead(t *testing.T) {
	p := newPlane(t)
	p.put("n1", `{"labels":{"a":"1"}}`)
	p.log.Hold()
	done := make(chan answer)
	go func() { done <- p.do("PUT", nodes+"/n1", `{"labels":{"a":"2"}}`) }()
	require.Eventually(t, func() bool { return p.log.Len() == 2 }, waitFor, tick)
	go func() { done <- p.do("PUT", nodes+"/n1", `{"labels":{"a":"1"}}`) }()
	require.Eventually(t, func() bool { return p.log.headReads() > 0 }, waitFor, tick)
	p.log.Release()
	p.want(http.StatusOK, "", <-done)
	p.want(http.StatusOK, "", <-done)
	require.Equal(t, 3, p.log.Len())
	require.Equal(t, "1", into[resource.Node](t, p.do("GET", nodes+"/n1", "")).Labels["a"])
}

func TestListsComeInPages(t *testing.T) {
	p := newPlane(t)
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("n%d", i)
		p.put(id, fmt.Sprintf(`{"labels":{"odd":"%t"}}`, i%2 == 1))
		p.create(fmt.Sprintf("p%d", i))
		want = append(want, id)
	}
	first := into[resource.Page[resource.Policy]](t, p.do("GET", policies+"?limit=1", "")).Items[0]
	for range 4 {
		p.do("PATCH", policies+"/"+first.ID.String(), `{"display_name":"`+fmt.Sprint(p.log.Len())+`"}`)
	}
	for _, list := range []struct {
		path string
		n    int
	}{
		{nodes, 7},
		{policies, 7},
		{policies + "/" + first.ID.String() + "/revisions", 5},
	} {
		whole := into[resource.Page[map[string]any]](t, p.do("GET", list.path, ""))
		require.Len(t, whole.Items, list.n)
		require.Nil(t, whole.NextCursor)
		for limit := 1; limit <= 8; limit++ {
			var got []map[string]any
			query := fmt.Sprintf("?limit=%d", limit)
			for cursor := ""; ; {
				page := into[resource.Page[map[string]any]](t, p.do("GET", list.path+query+cursor, ""))
				require.LessOrEqual(t, len(page.Items), limit)
				got = append(got, page.Items...)
				if page.NextCursor == nil {
					break
				}
				cursor = "&cursor=" + *page.NextCursor
			}
			require.Equal(t, whole.Items, got, "%s by %d", list.path, limit)
		}
	}
	odd := into[resource.Page[resource.Node]](t, p.do("GET", nodes+"?label_selector=odd%3Dtrue", ""))
	require.Len(t, odd.Items, 3)
	require.Equal(t, want[1], odd.Items[0].ID)
}

func (p *plane) batch(body string, header ...string) resource.BatchResult {
	p.t.Helper()
	a := p.do("POST", nodes+":batch", body, append([]string{"Content-Type: application/x-ndjson"}, header...)...)
	p.want(http.StatusOK, "", a)
	return into[resource.BatchResult](p.t, a)
}

func TestABatchSaysWhatBecameOfEachLine(t *testing.T) {
	p := newPlane(t)
	p.put("old", `{"labels":{"a":"1"}}`)
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/theirs", `{}`))
	got := p.batch(strings.Join([]string{
		`{"id":"new","labels":{"role":"web"},"addresses":["10.0.0.1"]}`,
		`{"id":"old","labels":{"a":"1"}}`,
		``,
		`{"id":"Bad.Id"}`,
		`{"id":"x","labels":`,
		`{"id":"theirs"}`,
		`{"id":"new","labels":{"role":"web"},"addresses":["10.0.0.1"]}`,
		`{"id":"new","labels":{"role":"db"}}`,
		`{"id":"x","colour":"red"}`,
		`{"id":"long","labels":{"a":"` + strings.Repeat("x", 64<<10) + `"}}`,
		`{"id":"last"}`,
	}, "\n"))
	require.Equal(t, 3, got.Applied)
	require.Equal(t, 2, got.Unchanged)
	type fate struct {
		line     int
		id, code string
	}
	var fates []fate
	for _, r := range got.Rejected {
		require.NotEmpty(t, r.Detail)
		fates = append(fates, fate{r.Line, r.ID, r.Code})
	}
	require.Equal(t, []fate{
		{4, "", "invalid_node_id"},
		{5, "x", "malformed_json"},
		{6, "theirs", "node_id_taken"},
		{9, "x", "unknown_field"},
		{10, "", "body_too_large"},
	}, fates)
	require.Equal(t, 5, p.log.Len())
}

// A batch must come to what its lines come to one by one, whatever the chunks.
func TestABatchEqualsItsLinesOneByOne(t *testing.T) {
	p := newPlane(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		var body strings.Builder
		single := map[string]string{}
		want := resource.BatchResult{}
		values := rapid.SliceOfN(rapid.IntRange(0, 7), 0, 300).Draw(rt, "lines")
		for range rapid.IntRange(1, 9).Draw(rt, "times") {
			for _, v := range values {
				id, facts := fmt.Sprintf("r%d-n%d", round, v/2), fmt.Sprint(v%2)
				fmt.Fprintf(&body, "{\"id\":%q,\"labels\":{\"a\":%q}}\n", id, facts)
				if single[id] == facts {
					want.Unchanged++
				} else {
					want.Applied++
				}
				single[id] = facts
			}
		}
		got := p.batch(body.String())
		require.Equal(rt, want.Applied, got.Applied)
		require.Equal(rt, want.Unchanged, got.Unchanged)
		for id, facts := range single {
			require.Equal(rt, facts, into[resource.Node](t, p.do("GET", nodes+"/"+id, "")).Labels["a"])
		}
	})
}

// lineReader gives one line a read, and tells when it was asked for more.
type lineReader struct {
	lines []string
	ended func()
}

func (r *lineReader) Read(b []byte) (int, error) {
	if len(r.lines) == 0 {
		r.ended()
		return 0, io.EOF
	}
	line := r.lines[0]
	r.lines = r.lines[1:]
	return copy(b, line), nil
}

// Lines are read while the fold still works on those before them; what they
// repeat is then not in the read model yet.
func TestABatchKnowsWhatItWroteBeforeTheFoldDoes(t *testing.T) {
	p := newPlane(t)
	p.log.Hold()
	body := &lineReader{ended: p.log.Release}
	for range 2 {
		for i := range 1000 {
			body.lines = append(body.lines, fmt.Sprintf("{\"id\":\"n%d\"}\n", i))
		}
	}
	r := httptest.NewRequest("POST", nodes+":batch", body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	require.JSONEq(t, `{"applied":1000,"unchanged":1000,"rejected":[]}`, w.Body.String())
	require.Equal(t, 1000, p.log.Len())
}

func TestABatchOfManyChunks(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	for i := range 5321 {
		fmt.Fprintf(z, "{\"id\":\"n%d\",\"labels\":{\"role\":\"r%d\"}}\r\n", i, i%10)
	}
	require.NoError(t, z.Close())
	sent := body.String()
	require.Equal(t, 5321, p.batch(sent, "Content-Encoding: gzip").Applied)
	require.Equal(t, 5321, p.batch(sent, "Content-Encoding: gzip").Unchanged)
	require.Equal(t, 5321, p.log.Len())
}

func TestABatchThatBreaksOffKeepsWhatItApplied(t *testing.T) {
	p := newPlane(t)
	r := httptest.NewRequest("POST", nodes+":batch", io.MultiReader(
		strings.NewReader("{\"id\":\"n1\"}\n{\"id\":\"n2\"}\n"), failing{}))
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "broke off after line 2")
	p.want(http.StatusOK, "", p.do("GET", nodes+"/n2", ""))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestABatchOfRubbishEnds(t *testing.T) {
	p := newPlane(t)
	a := p.do("POST", nodes+":batch", strings.Repeat("x\n", 20_000), "Content-Type: application/x-ndjson")
	p.want(http.StatusUnprocessableEntity, "too_many_rejected", a)
}

// What is said to be applied is.
func TestABatchThatEndsEarlyHasWrittenTheLinesBefore(t *testing.T) {
	p := newPlane(t)
	a := p.do("POST", nodes+":batch", "{\"id\":\"n1\"}\n"+strings.Repeat("x\n", 20_000), "Content-Type: application/x-ndjson")
	p.want(http.StatusUnprocessableEntity, "too_many_rejected", a)
	require.Contains(t, a.problem(t).Detail, "the others of these are applied")
	p.want(http.StatusOK, "", p.do("GET", nodes+"/n1", ""))
}

// A rejected line costs its answer a few words, however long a name in it is.
func TestALongNameInALineIsShortened(t *testing.T) {
	p := newPlane(t)
	for _, line := range []string{`{"id":"n1","labels":{"` + strings.Repeat("<", 60_000) + `":"v"}}`, `{"` + strings.Repeat("é", 30_000) + `":1}`} {
		got := p.batch(line).Rejected
		require.Len(t, got, 1)
		require.Less(t, len(got[0].Detail), 1100)
		require.Contains(t, got[0].Detail, "...: ", "where, in short, and what is wrong")
	}
}

// Lines that say what one before them says are forgotten as others are, however many come.
func TestABatchOfOneLineAgainAndAgainTakesNoMemory(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	const lines = 2 << 20
	before, after := heap(), uint64(0)
	body := io.MultiReader(io.LimitReader(&again{"{\"id\":\"n1\"}\n", 0}, lines*12), atEnd(func() { after = heap() }))
	r := httptest.NewRequest("POST", nodes+":batch", body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	require.JSONEq(t, fmt.Sprintf(`{"applied":1,"unchanged":%d,"rejected":[]}`, lines-1), w.Body.String())
	require.Less(t, after, before+8<<20, "bytes that are held when the last line was read")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// again reads a text over and over.
type again struct {
	text string
	at   int
}

func (a *again) Read(p []byte) (n int, _ error) {
	for n < len(p) {
		took := copy(p[n:], a.text[a.at:])
		n, a.at = n+took, (a.at+took)%len(a.text)
	}
	return n, nil
}

// atEnd is called when a body ends.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func TestABatchThatIsNotVisibleInTimeSaysSo(t *testing.T) {
	p := newPlane(t, impatient)
	p.log.Hold()
	a := p.do("POST", nodes+":batch", `{"id":"n1"}`, "Content-Type: application/x-ndjson")
	p.want(http.StatusServiceUnavailable, "projection_behind", a)
	p.log.Release()
	require.Equal(t, 1, p.batch(`{"id":"n1"}`).Unchanged)
}

func FuzzBatch(f *testing.F) {
	p := newPlane(f)
	f.Add("{\"id\":\"n1\",\"labels\":{\"a\":\"b\"},\"addresses\":[\"10.0.0.1\"]}\n{}\n\n\xff")
	f.Add(strings.Repeat("x", 70_000) + "\n{\"id\":\"n1\"}")
	f.Fuzz(func(t *testing.T, body string) {
		a := serve(t, p.Handler, "POST", nodes+":batch", body, "Content-Type: application/x-ndjson")
		require.Less(t, a.StatusCode, 500, "%s", a.body)
		if a.StatusCode != http.StatusOK {
			return
		}
		got := into[resource.BatchResult](t, a)
		lines := strings.Count(body, "\n") + 1
		require.LessOrEqual(t, got.Applied+got.Unchanged+len(got.Rejected), lines)
	})
}

func FuzzCursor(f *testing.F) {
	p := newPlane(f)
	made := p.create("web")
	paths := []string{nodes, policies, policies + "/" + made.ID.String() + "/revisions"}
	f.Add("cDo")
	f.Add("bjpuMQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, path := range paths {
			a := serve(t, p.Handler, "GET", path+"?cursor="+url.QueryEscape(cursor), "")
			require.Less(t, a.StatusCode, 500, "%s", a.body)
		}
	})
}

// A compressed batch costs in proportion to what was sent: 64 KiB of newlines are
// not 64 MiB of work, and a fleet whose lines are alike fits.
func TestABatchInflatesInProportion(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	newlines := inflating(strings.Repeat(strings.Repeat(" ", 1<<15)+"\n", 8), 64)
	require.Less(t, len(newlines), 32<<10)
	a := p.do("POST", nodes+":batch", newlines, "Content-Type: application/x-ndjson", "Content-Encoding: gzip")
	p.want(http.StatusRequestEntityTooLarge, "body_too_large", a)
	var fleet strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&fleet, `{"id":"n%d","labels":{"role":"web","env":"production","site":"one"},"addresses":["10.0.%d.%d"]}`+"\n", i, i/250, i%250+1)
	}
	got := p.batch(gzipped(fleet.String()), "Content-Encoding: gzip")
	require.Equal(t, 2000, got.Applied)
}

// A list by prefix has those whose names begin so, and no others, a page at a time.
func TestListsByPrefix(t *testing.T) {
	p := newPlane(t)
	for _, id := range []string{"db", "db-1", "db-2", "dc-1", "d", "web-1"} {
		p.do("PUT", "/v1/projects/"+project+"/nodes/"+id, `{"labels":{"role":"x"}}`)
	}
	p.do("DELETE", "/v1/projects/"+project+"/nodes/db-2", "")
	ids := func(query string) (out []string) {
		for cursor := ""; ; {
			page := into[resource.Page[resource.Node]](t, p.do("GET", "/v1/projects/"+project+"/nodes?"+query+"&cursor="+cursor, ""))
			for _, n := range page.Items {
				out = append(out, n.ID)
			}
			if page.NextCursor == nil {
				return out
			}
			cursor = *page.NextCursor
		}
	}
	require.Equal(t, []string{"db", "db-1"}, ids("prefix=db"))
	require.Equal(t, []string{"d", "db", "db-1", "dc-1"}, ids("prefix=d&limit=1"))
	require.Equal(t, []string{"d", "db", "db-1", "dc-1", "web-1"}, ids("limit=2"))
	require.Empty(t, ids("prefix=x"))
	require.Empty(t, ids("prefix=db&label_selector=role%3Dy"))
	p.want(http.StatusBadRequest, "wrong_type", p.do("GET", "/v1/projects/"+project+"/nodes?prefix=d&state=silent", ""))

	for _, slug := range []string{"web", "web-db", "app"} {
		p.do("POST", "/v1/projects/"+project+"/policies", draft(slug))
	}
	page := into[resource.Page[resource.Policy]](t, p.do("GET", "/v1/projects/"+project+"/policies?prefix=web", ""))
	require.Len(t, page.Items, 2)
}

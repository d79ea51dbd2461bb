package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// What is over a project's quota is refused before it is appended, and what only deletes is
// not.
func TestAProjectOverItsQuotaIsRefusedBeforeTheLog(t *testing.T) {
	now := epoch
	p := newPlane(t, func(d *api.Deps) { d.Clock = func() time.Time { return now } })
	quota := "/v1/projects/" + project + "/quota"
	p.want(http.StatusOK, "", p.do("PUT", quota, `{"nodes":1,"policies":1}`))
	p.put("n1", `{}`)
	p.create("web")
	written := p.log.Len()
	a := p.do("PUT", "/v1/projects/"+project+"/nodes/n2", `{"labels":{}}`)
	p.want(http.StatusTooManyRequests, "quota_exceeded", a)
	require.Equal(t, written, p.log.Len(), "nothing is written")
	p.want(http.StatusUnprocessableEntity, "invalid_quota", p.do("PUT", quota, `{"nodes":1125899906842625}`))
	p.want(http.StatusNoContent, "", p.do("DELETE", "/v1/projects/"+project+"/nodes/n1", ""))
	p.put("n2", `{}`)

	p.want(http.StatusOK, "", p.do("PUT", quota, `{"events_per_day":1}`))
	a = p.do("PUT", "/v1/projects/"+project+"/nodes/n3", `{"labels":{}}`)
	p.want(http.StatusTooManyRequests, "quota_exceeded", a)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
}

// A rate that lets an event pass in a moment has its request wait for that, once.
func TestAWriteWaitsAMomentForItsRate(t *testing.T) {
	var began time.Time
	p := newPlane(t, func(d *api.Deps) {
		d.Clock = func() time.Time {
			if began.IsZero() || time.Since(began) < 50*time.Millisecond {
				return epoch
			}
			return epoch.Add(time.Hour)
		}
	})
	p.want(http.StatusOK, "", p.do("PUT", "/v1/projects/"+project+"/quota", `{"events_per_second":1}`))
	p.put("n1", `{}`)
	began = time.Now()
	p.put("n1", `{"labels":{"a":"b"}}`)
}

// Nothing that a project removes gives it bytes of the log back: only the hours do, and it is
// told when.
func TestAProjectThatTookItsBytesIsToldWhenItHasSomeAgain(t *testing.T) {
	now := epoch
	p := newPlane(t, func(d *api.Deps) { d.Clock = func() time.Time { return now } })
	p.put("n1", `{}`)
	at := "/v1/projects/" + project
	p.want(http.StatusOK, "", p.do("PUT", at+"/quota", `{"bytes_per_day":100}`))
	again := epoch.Truncate(time.Hour).Add(24 * time.Hour)
	a := p.do("PUT", at+"/nodes/n2", `{}`)
	p.want(http.StatusTooManyRequests, "quota_exceeded", a)
	require.Equal(t, strconv.Itoa(1+int(again.Sub(epoch)/time.Second)), a.Header.Get("Retry-After"))
	require.Contains(t, string(a.body), "publish again from "+again.Format(time.RFC3339)+" on")
	require.NotContains(t, string(a.body), "remove some")
	require.Equal(t, again, *into[resource.Project](t, p.do("GET", at, "")).Ready)
	now = again
	require.Nil(t, into[resource.Project](t, p.do("GET", at, "")).Ready)
}

// A batch is refused whole if none of its lines has room; otherwise those are that have none.
func TestABatchGoesOnWithWhatHasRoom(t *testing.T) {
	p := newPlane(t)
	at := "/v1/projects/" + project
	p.put("n1", `{}`)
	p.want(http.StatusOK, "", p.do("PUT", at+"/quota", `{"nodes":1}`))
	send := func(lines string) answer {
		return p.do("POST", at+"/nodes:batch", lines, "Content-Type: application/x-ndjson")
	}
	written := p.log.Len()
	p.want(http.StatusTooManyRequests, "quota_exceeded", send(`{"id":"n2"}`))
	require.Equal(t, written, p.log.Len(), "nothing is written")
	a := send("{\"id\":\"n2\"}\n{\"id\":\"n1\",\"labels\":{\"a\":\"b\"}}")
	p.want(http.StatusOK, "", a)
	require.Empty(t, a.Header.Get("Retry-After"))
	var res resource.BatchResult
	a.decode(t, &res)
	require.Equal(t, 1, res.Applied)
	require.Len(t, res.Rejected, 1)
	require.Equal(t, "quota_exceeded", res.Rejected[0].Code)
	require.Equal(t, 1, res.Rejected[0].Line)
}

// A batch whose room ends far behind its beginning says what became of each line: those before
// are written. A dry run says the same.
func TestALongBatchThatFillsItsProjectSaysWhatIsWritten(t *testing.T) {
	p := newPlane(t)
	at := "/v1/projects/" + project
	const room, sent = 1500, 6000
	p.want(http.StatusOK, "", p.do("PUT", at+"/quota", fmt.Sprintf(`{"nodes":%d}`, room)))
	var lines strings.Builder
	for i := range sent {
		fmt.Fprintf(&lines, "{\"id\":\"n%d\"}\n", i)
	}
	for _, how := range []string{"?dry_run", ""} {
		a := p.do("POST", at+"/nodes:batch"+how, lines.String(), "Content-Type: application/x-ndjson")
		p.want(http.StatusOK, "", a)
		require.Empty(t, a.Header.Get("Retry-After"))
		res := into[resource.BatchResult](t, a)
		require.Equal(t, room, res.Applied)
		require.Len(t, res.Rejected, sent-room)
		for i, line := range res.Rejected {
			require.Equal(t, "quota_exceeded", line.Code)
			require.Equal(t, room+i+1, line.Line)
			require.Equal(t, fmt.Sprintf("n%d", room+i), line.ID)
		}
	}
}

// An archived project takes no write, and none is appended.
func TestAnArchivedProjectIsRefusedBeforeTheLog(t *testing.T) {
	p := newPlane(t)
	at := "/v1/projects/" + project
	p.put("n1", `{}`)
	p.create("web")
	p.want(http.StatusConflict, "project_in_use", p.do("PATCH", at, `{"archived":true}`))
	p.want(http.StatusNoContent, "", p.do("DELETE", at+"/nodes/n1", ""))
	p.want(http.StatusUnprocessableEntity, "required", p.do("PATCH", at, `{}`))
	p.want(http.StatusOK, "", p.do("PATCH", at, `{"archived":true}`))
	written := p.log.Len()
	p.want(http.StatusConflict, "project_archived", p.do("PUT", at+"/nodes/n1", `{"labels":{}}`))
	p.want(http.StatusConflict, "project_archived", p.do("POST", at+"/nodes:batch", `{"id":"n1"}`, "Content-Type: application/x-ndjson"))
	p.want(http.StatusConflict, "project_archived", p.do("POST", at+"/artifacts:release", handmade("n1", 1), "Content-Type: application/x-ndjson"))
	require.Equal(t, written, p.log.Len(), "nothing is written")
	p.want(http.StatusOK, "", p.do("GET", at+"/policies", ""))
	p.want(http.StatusOK, "", p.do("PATCH", at, `{"archived":false}`))
	p.put("n1", `{}`)
}

// What keeps a change from being written is said, and not that the head is another: it is
// the one that the change expects.
func TestAChangeThatExpectsTheHeadIsToldWhatKeepsIt(t *testing.T) {
	p := newPlane(t)
	at := "/v1/projects/" + project
	made := p.create("web")
	one := policies + "/" + made.ID.String()
	change := func(name string) answer {
		return p.do("PATCH", one, `{"display_name":"`+name+`","expected_revision_id":"`+made.HeadRevisionID.String()+`"}`)
	}
	p.want(http.StatusOK, "", p.do("PUT", at+"/quota", `{"bytes_per_day":1}`))
	p.want(http.StatusTooManyRequests, "quota_exceeded", change("Other"))
	p.want(http.StatusOK, "", change(made.DisplayName))
	p.want(http.StatusOK, "", p.do("PUT", at+"/quota", `{}`))
	p.want(http.StatusOK, "", p.do("PATCH", at, `{"archived":true}`))
	p.want(http.StatusConflict, "project_archived", change("Other"))
}

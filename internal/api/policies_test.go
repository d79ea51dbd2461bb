package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
)

func TestACreatedPolicyIsReadAtOnce(t *testing.T) {
	p := newPlane(t)
	a := p.do("POST", policies, draft("web"), "X-Edict-Principal: ann", "X-Correlation-Id: change-7")
	p.want(http.StatusCreated, "", a)
	made := into[resource.Policy](t, a)
	require.Equal(t, policies+"/"+made.ID.String(), a.Header.Get("Location"))
	require.Equal(t, "change-7", a.Header.Get("X-Correlation-Id"))
	require.Equal(t, "ann", made.Head.CreatedBy)
	require.Equal(t, "change-7", *made.Head.CorrelationID)
	require.Nil(t, made.Head.ParentID)

	read := p.do("GET", a.Header.Get("Location"), "")
	require.Equal(t, string(a.body), string(read.body))
}

func TestAPatchInheritsWhatItLeavesOut(t *testing.T) {
	p := newPlane(t)
	first := p.create("web")
	path := policies + "/" + first.ID.String()

	a := p.do("PATCH", path, `{"display_name":"Front","expected_revision_id":"`+first.HeadRevisionID.String()+`"}`)
	p.want(http.StatusOK, "", a)
	second := into[resource.Policy](t, a)
	require.Equal(t, "Front", second.DisplayName)
	require.Equal(t, first.HeadRevisionID, *second.Head.ParentID)
	require.Equal(t, first.Head.Rules, second.Head.Rules)
	require.Equal(t, first.Head.Selector, second.Head.Selector)
	require.Equal(t, 2, p.log.Len())

	t.Run("what says what is so already writes nothing", func(t *testing.T) {
		for _, body := range []string{
			`{}`,
			`{"display_name":"Front"}`,
			`{"selector":{"source":" role = web ","destination":"role=db"}}`,
			`{"rules":` + webRules + `}`,
		} {
			a := p.do("PATCH", path, body)
			p.want(http.StatusOK, "", a)
			require.Equal(t, second, into[resource.Policy](t, a), body)
		}
		require.Equal(t, 2, p.log.Len())
	})
	t.Run("a stale expectation is a conflict and writes nothing", func(t *testing.T) {
		a := p.do("PATCH", path, `{"display_name":"X","expected_revision_id":"`+first.HeadRevisionID.String()+`"}`)
		p.want(http.StatusConflict, "revision_conflict", a)
		require.Equal(t, 2, p.log.Len())
	})
}

func TestADeletedPolicyIsGoneAndItsSlugFree(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	path := policies + "/" + made.ID.String()
	p.want(http.StatusNoContent, "", p.do("DELETE", path, ""))
	p.want(http.StatusNotFound, "policy_not_found", p.do("GET", path, ""))
	p.want(http.StatusNotFound, "policy_not_found", p.do("DELETE", path, ""))
	p.want(http.StatusNotFound, "policy_not_found", p.do("GET", path+"/revisions", ""))
	p.create("web")
}

func TestAPolicyIsSeenByItsOwnProjectAlone(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	path := "/v1/projects/" + other + "/policies/" + made.ID.String()
	for _, method := range []string{"GET", "DELETE"} {
		p.want(http.StatusNotFound, "policy_not_found", p.do(method, path, ""))
	}
	p.want(http.StatusNotFound, "policy_not_found", p.do("PATCH", path, `{"display_name":"mine"}`))
	require.Equal(t, 1, p.log.Len())
	require.Empty(t, into[resource.Page[resource.Policy]](t, p.do("GET", "/v1/projects/"+other+"/policies", "")).Items)
}

func TestARetryUnderTheSameKeyIsTheSameWrite(t *testing.T) {
	const key = "Idempotency-Key: k-1"
	// Each case runs against the same log, its memory of event ids, the
	// process that wrote or another one, in every mixture.
	for name, between := range map[string]func(p *plane){
		"at once":                      func(*plane) {},
		"after the log's window":       func(p *plane) { p.log.Forget() },
		"on another worker":            func(p *plane) { p.Handler = judged(p.t, api.New(p.deps)) },
		"much later on another worker": func(p *plane) { p.log.Forget(); p.Handler = judged(p.t, api.New(p.deps)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			a := p.do("POST", policies, draft("web"), key)
			p.want(http.StatusCreated, "", a)
			between(p)
			again := p.do("POST", policies, draft("web"), key)
			p.want(http.StatusCreated, "", again)
			require.Equal(t, string(a.body), string(again.body))
			require.Equal(t, a.Header.Get("Location"), again.Header.Get("Location"))
			require.Equal(t, 1, p.log.Len())

			made := into[resource.Policy](t, a)
			patch := `{"display_name":"Front","expected_revision_id":"` + made.HeadRevisionID.String() + `"}`
			b := p.do("PATCH", a.Header.Get("Location"), patch, key)
			p.want(http.StatusOK, "", b)
			between(p)
			again = p.do("PATCH", a.Header.Get("Location"), patch, key)
			p.want(http.StatusOK, "", again)
			require.Equal(t, string(b.body), string(again.body))
			require.Equal(t, 2, p.log.Len())
		})
	}
}

func TestARetryAnswersAsTheFirstTryDidWhateverCameAfter(t *testing.T) {
	p := newPlane(t)
	first := p.do("POST", policies, draft("web"), "Idempotency-Key: k")
	path := first.Header.Get("Location")
	second := p.do("PATCH", path, `{"rules":[`+rule("deny", "any", "10.0.0.0/8", "10.0.0.0/8", "")+`]}`, "Idempotency-Key: k")
	p.want(http.StatusOK, "", second)
	third := p.do("PATCH", path, `{"display_name":"Another","rules":`+webRules+`}`)
	p.want(http.StatusOK, "", third)

	again := p.do("POST", policies, draft("web"), "Idempotency-Key: k")
	require.Equal(t, string(first.body), string(again.body))
	again = p.do("PATCH", path, `{"rules":[`+rule("deny", "any", "10.0.0.0/8", "10.0.0.0/8", "")+`]}`, "Idempotency-Key: k")
	p.want(http.StatusOK, "", again)
	require.Equal(t, string(second.body), string(again.body))
	require.Equal(t, 3, p.log.Len())
}

func TestADeletionAgainUnderTheSameKeyIsNoError(t *testing.T) {
	for name, between := range map[string]func(p *plane){
		"at once":                      func(*plane) {},
		"on another worker":            func(p *plane) { p.Handler = judged(p.t, api.New(p.deps)) },
		"much later on another worker": func(p *plane) { p.log.Forget(); p.Handler = judged(p.t, api.New(p.deps)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			for path, gone := range map[string]string{
				policies + "/" + p.create("web").ID.String(): "policy_not_found",
				nodes + "/n1": "node_not_found",
			} {
				if gone == "node_not_found" {
					p.want(http.StatusCreated, "", p.do("PUT", path, `{"labels":{"role":"web"},"addresses":[]}`))
				}
				stands := p.log.Len()
				p.want(http.StatusNoContent, "", p.do("DELETE", path, "", "Idempotency-Key: d"))
				between(p)
				p.want(http.StatusNoContent, "", p.do("DELETE", path, "", "Idempotency-Key: d"))
				p.want(http.StatusNotFound, gone, p.do("DELETE", path, "", "Idempotency-Key: e"))
				require.Equal(t, stands+1, p.log.Len())
			}
		})
	}
}

func TestKeysOfTwoPrincipalsAndOfTwoWritesDoNotMeet(t *testing.T) {
	p := newPlane(t)
	a := p.create("web", "Idempotency-Key: k", "X-Edict-Principal: ann")
	b := p.create("db", "Idempotency-Key: k", "X-Edict-Principal: bob")
	require.NotEqual(t, a.ID, b.ID)
	require.Equal(t, byte(8), a.ID[6]>>4, "derived ids are UUIDv8")
	p.want(http.StatusNoContent, "", p.do("DELETE", policies+"/"+a.ID.String(), "", "Idempotency-Key: k", "X-Edict-Principal: ann"))
}

// Another worker's writes reach this one late: what it answers must not be
// older than what its client was told elsewhere.
func TestAWorkerThatLagsCatchesUpBeforeItRefuses(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	path := policies + "/" + made.ID.String()
	p.log.Hold()
	unseen := p.log.Len()
	done := make(chan answer)
	go func() { done <- p.do("DELETE", path, "") }()
	require.Eventually(t, func() bool { return p.log.Len() > unseen }, waitFor, tick)
	// The slug is free in the log, taken in the read model here.
	go func() { done <- p.do("POST", policies, draft("web")) }()
	require.Eventually(t, func() bool { return p.log.headReads() > 0 }, waitFor, tick)
	p.log.Release()
	got := []int{(<-done).StatusCode, (<-done).StatusCode}
	require.ElementsMatch(t, []int{http.StatusNoContent, http.StatusCreated}, got)
}

func TestAWriteThatIsNotVisibleInTimeNamesItsSequence(t *testing.T) {
	p := newPlane(t, impatient)
	p.log.Hold()
	a := p.do("POST", policies, draft("web"), "Idempotency-Key: k")
	p.want(http.StatusServiceUnavailable, "projection_behind", a)
	require.Equal(t, uint64(1), a.problem(t).Sequence)
	p.log.Release()
	p.create("web", "Idempotency-Key: k")
	require.Equal(t, 1, p.log.Len())
}

// TestAWriteThatTheLogDidNotAcknowledgeIsNoSuccess loses the acknowledgement of each
// kind of write: it may be stored or not, and who wrote hears so.
func TestAWriteThatTheLogDidNotAcknowledgeIsNoSuccess(t *testing.T) {
	p := newPlane(t, impatient)
	made := p.create("web")
	p.create("gone")
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/there", `{"labels":{},"addresses":[]}`))
	p.log.Fail(fmt.Errorf("publish: %w", streams.ErrUnknown))
	before := p.log.Len()
	for _, a := range []answer{
		p.do("POST", policies, draft("db")),
		p.do("POST", policies, draft("db"), "Idempotency-Key: k"),
		p.do("PATCH", policies+"/"+made.ID.String(), `{"display_name":"another"}`),
		p.do("DELETE", policies+"/"+made.ID.String(), ""),
		p.do("PUT", nodes+"/new", `{"labels":{},"addresses":[]}`),
		p.do("PUT", nodes+"/there", `{"labels":{"a":"b"},"addresses":[]}`),
		p.do("DELETE", nodes+"/there", ""),
	} {
		p.want(http.StatusServiceUnavailable, "log_unavailable", a)
	}
	require.Equal(t, before, p.log.Len())
}

func TestALogThatIsDownOrFullIsSaid(t *testing.T) {
	p := newPlane(t, impatient)
	made := p.create("web")
	p.log.Fail(errDown)
	p.want(http.StatusServiceUnavailable, "log_unavailable", p.do("POST", policies, draft("db")))
	p.want(http.StatusServiceUnavailable, "log_unavailable", p.do("GET", policies+"/"+nowhere, ""))
	p.want(http.StatusServiceUnavailable, "log_unavailable", p.do("GET", "/v1/status", ""))
	p.want(http.StatusOK, "", p.do("GET", policies+"/"+made.ID.String(), ""))

	full := newPlane(t, func(d *api.Deps) { d.Writable = func() error { return errDown } })
	for _, a := range []answer{
		full.do("POST", policies, draft("db")),
		full.do("PUT", nodes+"/n1", `{}`),
		full.do("POST", nodes+":batch", `{"id":"n1"}`, "Content-Type: application/x-ndjson"),
	} {
		full.want(http.StatusInsufficientStorage, "storage_low", a)
	}
	require.Zero(t, full.log.Len())
}

// A name is one request: the policy of a slug is listed with its head.
func TestAPolicyIsReadByItsSlug(t *testing.T) {
	p := newPlane(t)
	made := p.create("web")
	p.create("web-2")
	a := p.do("GET", policies+"?slug=web", "")
	p.want(http.StatusOK, "", a)
	page := into[resource.Page[resource.Policy]](t, a)
	require.Len(t, page.Items, 1)
	require.Equal(t, made.Head, page.Items[0].Head)
	for _, none := range []string{"we", ""} {
		require.Empty(t, into[resource.Page[resource.Policy]](t, p.do("GET", policies+"?slug="+none, "")).Items)
	}
	for _, other := range []string{"prefix=db", "rule=tcp"} {
		p.want(http.StatusBadRequest, api.CodeBadParameter, p.do("GET", policies+"?slug=web&"+other, ""))
	}

	guardedPlane, tokens := guarded(t, roles)
	guardedPlane.want(http.StatusOK, "", guardedPlane.do("GET", policies+"?slug=web", "", bearer(tokens["viewer"])))
}

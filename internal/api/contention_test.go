package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// lateLog is a log whose follower folds nothing until it is asked for the head or what
// stands last, or appends itself: a worker that lags as far as one may.
type lateLog struct {
	*memLog
	late   *projector.Projector
	before func() // each append of this worker
}

func (l *lateLog) fold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.late.Apply(l.msgs[l.late.Applied():]); err != nil {
		panic(err)
	}
}

func (l *lateLog) Head(ctx context.Context) (uint64, error) {
	l.fold()
	return l.memLog.Head(ctx)
}

func (l *lateLog) LastOf(ctx context.Context, e policy.Event) (uint64, error) {
	l.fold()
	return l.memLog.LastOf(ctx, e)
}

func (l *lateLog) Publish(ctx context.Context, a streams.Append) (uint64, bool, error) {
	if l.before != nil {
		l.before()
	}
	defer l.fold()
	return l.memLog.Publish(ctx, a)
}

// lateWorker is another worker of p's plane, which lags.
func lateWorker(t *testing.T, p *plane, set ...func(*api.Deps)) (*plane, *lateLog) {
	t.Helper()
	fold := openFold(t, projector.Options{Partitions: 4, Created: epoch, First: 1})
	l := &lateLog{memLog: p.log, late: fold}
	b := *p
	b.fold, b.deps.Log, b.deps.Model = fold, l, fold
	for _, f := range set {
		f(&b.deps)
	}
	b.Handler = judged(t, api.New(b.deps))
	return &b, l
}

// onlyApplied holds that nothing in the log was refused.
func (p *plane) onlyApplied() {
	p.t.Helper()
	all, err := p.fold.Rejections(0, 10)
	require.NoError(p.t, err)
	require.Empty(p.t, all, "no event was refused")
}

func TestAPatchThatExpectsNothingMeetsTheHeadOfAnyWorker(t *testing.T) {
	a := newPlane(t)
	b, _ := lateWorker(t, a)
	path := policies + "/" + a.create("web").ID.String()
	for _, name := range []string{"One", "Two", "Three", "Four"} {
		a.want(http.StatusOK, "", a.do("PATCH", path, `{"display_name":"`+name+`"}`))
		b.want(http.StatusOK, "", b.do("PATCH", path, `{"display_name":"And `+name+`"}`))
	}
	a.onlyApplied()
	got := into[resource.Policy](t, a.do("GET", path, ""))
	require.Equal(t, "And Four", got.DisplayName)
}

func TestAPatchThatExpectsNothingTakesInWhatCameBetween(t *testing.T) {
	for _, key := range []string{"", "Idempotency-Key: k"} {
		t.Run(key, func(t *testing.T) {
			a := newPlane(t)
			b, log := lateWorker(t, a)
			path := policies + "/" + a.create("web").ID.String()
			names := []string{"First", "Second", "Third"}
			log.before = func() {
				if len(names) > 0 {
					a.want(http.StatusOK, "", a.do("PATCH", path, `{"display_name":"`+names[0]+`"}`))
					names = names[1:]
				}
			}
			var header []string
			if key != "" {
				header = []string{key}
			}
			patch := `{"selector":{"source":"role=app","destination":"role=db"}}`
			first := b.do("PATCH", path, patch, header...)
			b.want(http.StatusOK, "", first)
			got := into[resource.Policy](t, first)
			require.Equal(t, "Third", got.DisplayName, "what another wrote stays")
			require.Equal(t, "role=app", got.Head.Selector.Source)
			require.Equal(t, string(first.body), string(a.do("GET", path, "").body))
			if key == "" {
				return
			}
			// Asked again, also where the change between was never seen, it is that write.
			for name, w := range map[string]*plane{"there": b, "elsewhere": a, "on a new worker": func() *plane { w, _ := lateWorker(t, a); return w }()} {
				before := a.log.Len()
				again := w.do("PATCH", path, patch, key)
				w.want(http.StatusOK, "", again)
				require.Equal(t, string(first.body), string(again.body), name)
				require.Equal(t, before, a.log.Len(), name)
			}
		})
	}
}

func TestAPatchThatLosesEachTimeIsToBeTriedAgain(t *testing.T) {
	a := newPlane(t)
	b, log := lateWorker(t, a, impatient)
	path := policies + "/" + a.create("web").ID.String()
	n := 0
	log.before = func() {
		n++
		a.want(http.StatusOK, "", a.do("PATCH", path, `{"display_name":"`+string(rune('A'+n%2))+`"}`))
	}
	got := b.do("PATCH", path, `{"rules":[`+rule("deny", "any", "10.0.0.0/8", "10.0.0.0/8", "")+`]}`)
	b.want(http.StatusServiceUnavailable, "contended", got)
}

func TestAPatchThatExpectsAHeadIsRefusedWhenItMoved(t *testing.T) {
	a := newPlane(t)
	b, _ := lateWorker(t, a)
	made := a.create("web")
	path := policies + "/" + made.ID.String()
	b.want(http.StatusOK, "", b.do("GET", path, ""))
	a.want(http.StatusOK, "", a.do("PATCH", path, `{"display_name":"Other"}`))
	b.want(http.StatusConflict, "revision_conflict", b.do("PATCH", path, `{"display_name":"Mine","expected_revision_id":"`+made.HeadRevisionID.String()+`"}`))
}

func TestAnAdmissionChangeThatExpectsNothingTakesInWhatCameBetween(t *testing.T) {
	const key = "Idempotency-Key: k"
	a := newPlane(t)
	b, log := lateWorker(t, a)
	created := a.do("POST", admissions, `{"name":"n","policy_type":"Global","priority":7,"rego_code":"package x\n"}`)
	a.want(http.StatusCreated, "", created)
	path := created.Header.Get("Location")
	body := func(priority string) string { return `{"priority":` + priority + `,"rego_code":"package x\n"}` }
	b.want(http.StatusOK, "", b.do("GET", path, ""))
	b.want(http.StatusOK, "", b.do("PUT", path, body("8")))
	a.want(http.StatusOK, "", a.do("PUT", path, body("9")))
	b.want(http.StatusOK, "", b.do("PUT", path, body("10")))
	a.onlyApplied()
	racers := []string{"11", "12"}
	log.before = func() {
		if len(racers) > 0 {
			a.want(http.StatusOK, "", a.do("PUT", path, body(racers[0])))
			racers = racers[1:]
		}
	}
	b.want(http.StatusOK, "", b.do("PUT", path, body("20"), key))
	a.want(http.StatusOK, "", a.do("PUT", path, body("21")))
	b.log.Forget()
	again := b.do("PUT", path, body("20"), key)
	b.want(http.StatusOK, "", again)
	require.Equal(t, 20, into[resource.AdmissionPolicy](t, again).Priority, "the answer is that of the first try")
	require.Equal(t, 21, into[resource.AdmissionPolicy](t, b.do("GET", path, "")).Priority, "what was made before is not made again")
}

func TestANodeThatAnotherWorkerMadeIsNotMadeAnew(t *testing.T) {
	a := newPlane(t)
	b, _ := lateWorker(t, a)
	a.want(http.StatusCreated, "", a.do("PUT", nodes+"/n1", `{"labels":{"a":"1"}}`))
	b.want(http.StatusOK, "", b.do("PUT", nodes+"/n1", `{"labels":{"a":"2"}}`))
}

func TestARelationNamesTheProjectThatHasTheNode(t *testing.T) {
	p := newPlane(t)
	p.principal("web-c")
	relations := "/v1/access/principals/web-c/relations"
	write := func(relation string) answer { return p.do("POST", relations, `{"relation":"`+relation+`"}`) }
	p.want(http.StatusUnprocessableEntity, "invalid_relation", write("node:web-c#agent"))
	p.want(http.StatusOK, "", write("node:"+project+"/web-c#agent"))
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/web-c", `{}`))
	p.want(http.StatusConflict, "node_id_taken", write("node:"+nowhere+"/web-c#agent"))
	p.want(http.StatusOK, "", write("node:"+other+"/web-c#agent"))
	p.want(http.StatusNoContent, "", p.do("DELETE", relations+"?relation=node:web-c%23agent", ""))
	require.Empty(t, into[resource.Principal](t, p.do("GET", "/v1/access/principals/web-c", "")).Relations)
}

// A name that another worker was given is not taken for nobody's.
func TestAPolicyOfAnotherWorkerIsFoundByItsSlug(t *testing.T) {
	a := newPlane(t)
	b, _ := lateWorker(t, a)
	made := a.create("web")
	got := into[resource.Page[resource.Policy]](t, b.do("GET", policies+"?slug=web", ""))
	require.Len(t, got.Items, 1)
	require.Equal(t, made.ID, got.Items[0].ID)
	require.Empty(t, into[resource.Page[resource.Policy]](t, b.do("GET", policies+"?slug=db", "")).Items)
}

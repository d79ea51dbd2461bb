package api_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// TestAUserHasSoManyPolicies fills what a user may have.
func TestAUserHasSoManyPolicies(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	draft := func(i int, user string) string {
		return admissionDraft(t, fmt.Sprint("p", i), "user", i, specified(`{"patch": {}}`), "user_id", user)
	}
	for i := range 100 {
		p.admit(t, draft(i, "ana"))
	}
	one := p.do("POST", admissions, draft(101, "ana"), "Idempotency-Key: a")
	p.want(409, "too_many_policies", one)
	require.Contains(t, one.problem(t).Detail, "ana has 100 admission policies")
	p.want(409, "too_many_policies", p.do("POST", admissions+"?dry_run=true", draft(101, "ana")))
	p.admit(t, draft(1, "ben"))
	p.admit(t, admissionDraft(t, "p1", "user", 1, specified(`{"patch": {}}`)))
	var first struct{ Items []struct{ ID string } }
	p.do("GET", admissions+"?user_id=ana&limit=1", "").decode(t, &first)
	id := first.Items[0].ID
	p.want(200, "", p.do("PUT", admissions+"/"+id, body(t, "priority", 500, "rego_code", specified(`{"patch": {"x": 1}}`))))
	p.want(204, "", p.do("DELETE", admissions+"/"+id, ""))
	p.want(201, "", p.do("POST", admissions, draft(101, "ana"), "Idempotency-Key: a"))
	p.want(201, "", p.do("POST", admissions, draft(101, "ana"), "Idempotency-Key: a"))
}

// Who writes several at once has no more than who writes them one after the other: the second is
// judged when the first is there.
func TestAUserHasNoMorePoliciesForWritingThemAtOnce(t *testing.T) {
	a := newPlane(t)
	b, log := lateWorker(t, a)
	draft := func(i int) string {
		return admissionDraft(t, fmt.Sprint("p", i), "user", i, specified(`{"patch": {}}`), "user_id", "ana")
	}
	for i := range 99 {
		b.admit(t, draft(i))
	}
	synctest.Test(t, func(t *testing.T) {
		second := make(chan answer, 1)
		log.before = func() {
			log.before = nil
			go func() { second <- b.do("POST", admissions, draft(101)) }()
			synctest.Wait()
		}
		require.Equal(t, 201, b.do("POST", admissions, draft(100)).StatusCode)
		require.Equal(t, 409, (<-second).StatusCode)
	})
}

// Whose turn to be counted does not come is told so in time, as for any write that waits.
func TestAPolicyOfAUserWaitsForItsTurnInPatience(t *testing.T) {
	a := newPlane(t)
	b, log := lateWorker(t, a)
	b.admit(t, admissionDraft(t, "p0", "user", 1, specified(`{"patch": {}}`))) // the store has opened its files by then
	var second answer
	synctest.Test(t, func(t *testing.T) {
		log.before = func() {
			log.before = nil
			second = b.do("POST", admissions, admissionDraft(t, "p2", "user", 2, specified(`{"patch": {}}`), "user_id", "ben"))
		}
		b.do("POST", admissions, admissionDraft(t, "p1", "user", 1, specified(`{"patch": {}}`), "user_id", "ana"))
	})
	b.want(503, "log_unavailable", second)
}

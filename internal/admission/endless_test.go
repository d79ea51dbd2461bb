package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forever is an answer that takes longer than anybody waits, if the request says so.
const forever = `{"patch": {"n": count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i == j])}} if input.current_request_payload.loop`

func outcome(err error) string {
	var failure *PolicyError
	switch {
	case err == nil:
		return "passed"
	case errors.As(err, &failure):
		return failure.Code
	}
	return err.Error()
}

func TestAPolicyThatRunsOutOfTimeAgainAndAgainIsSuspended(t *testing.T) {
	now := time.Unix(0, 0)
	e := NewEngine(EngineOptions{Limits: Limits{PolicyTimeout: 5 * time.Millisecond, ChainTimeout: time.Minute}, Clock: func() time.Time { return now }})
	s := compiled(t, rego("endless", User, 1, forever))
	ask := func(text string) string {
		_, err := e.Evaluate(t.Context(), s, Request{Payload: payload(t, text)}, Options{})
		return outcome(err)
	}
	loop, fine := `{"loop": true}`, `{"loop": false}`
	require.Equal(t, []string{"timeout", "timeout"}, []string{ask(loop), ask(loop)})
	require.Equal(t, "passed", ask(fine), "only those in a row count")
	for range 3 {
		require.Equal(t, "timeout", ask(loop))
	}
	require.Equal(t, []string{"suspended", "suspended"}, []string{ask(loop), ask(fine)}, "nobody asks it now")
	warnings := s.Find("endless").Warnings(t.Context())
	require.Equal(t, WarnSuspended, warnings[0].Code)
	require.Contains(t, warnings[0].Detail, "3 times in a row")

	now = now.Add(time.Second)
	require.Equal(t, []string{"timeout", "suspended"}, []string{ask(loop), ask(loop)}, "one request tries it")
	now = now.Add(time.Second)
	require.Equal(t, "suspended", ask(fine), "the next time it takes twice as long")
	now = now.Add(time.Second)
	require.Equal(t, []string{"passed", "passed", "timeout"}, []string{ask(fine), ask(fine), ask(loop)}, "it is as it was")
	require.Empty(t, s.Find("endless").Warnings(t.Context()))
}

func TestASuspensionSaysSo(t *testing.T) {
	e := NewEngine(EngineOptions{Limits: Limits{PolicyTimeout: 5 * time.Millisecond, ChainTimeout: time.Minute}})
	s := compiled(t, rego("endless", User, 1, forever))
	var err error
	for range 4 {
		_, err = e.Evaluate(t.Context(), s, Request{Payload: payload(t, `{"loop": true}`)}, Options{})
	}
	require.ErrorContains(t, err, `policy "endless" failed: suspended: it ran out of time 3 times in a row for who asks; it is not asked again for them before`)
}

// TestASuspensionIsForWhoAsks: the slow requests of one asker take a Global policy from
// nobody else, whoever else they say that they ask for.
func TestASuspensionIsForWhoAsks(t *testing.T) {
	e := NewEngine(EngineOptions{
		Limits: Limits{PolicyTimeout: 5 * time.Millisecond, ChainTimeout: time.Minute},
		Clock:  func() time.Time { return time.Unix(0, 0) },
	})
	s := compiled(t, rego("endless", Global, 1, forever))
	ask := func(r Request, text string) string {
		r.Payload = payload(t, text)
		_, err := e.Evaluate(t.Context(), s, r, Options{})
		return outcome(err)
	}
	eve := Request{Caller: "eve", TenantID: "shop", UserID: "ana"}
	for range timeoutsInARow {
		require.Equal(t, "timeout", ask(eve, `{"loop": true}`))
	}
	require.Equal(t, "suspended", ask(eve, `{"loop": false}`))
	require.Contains(t, s.Find("endless").Warnings(t.Context())[0].Detail, "of 1 who ask")
	for _, other := range []Request{{}, {Caller: "ana", TenantID: "shop", UserID: "ana"}, {Caller: "eve", TenantID: "shop"}, {Caller: "eve", UserID: "ana"}} {
		require.Equal(t, "passed", ask(other, `{"loop": false}`), "%+v", other)
	}
}

func TestAPolicyRemembersSoManyWhoAsk(t *testing.T) {
	var b breaker
	for i := range 3 * maxAskers {
		b.ended(asker{user: fmt.Sprint(i)}, time.Unix(0, 0), true, true)
	}
	require.Len(t, b.of, maxAskers)
	require.Contains(t, b.of, asker{user: fmt.Sprint(3*maxAskers - 1)})
	for i := range 3 * maxAskers {
		b.ended(asker{user: fmt.Sprint(i)}, time.Unix(0, 0), false, true)
	}
	require.Empty(t, b.of, "nothing is kept of those whose requests are fine")
}

// TestEndlessPoliciesTakeNoPlaceFromOthers has one place for evaluations, and
// policies that would hold it for a minute.
func TestEndlessPoliciesTakeNoPlaceFromOthers(t *testing.T) {
	e := NewEngine(EngineOptions{Limits: Limits{Concurrency: 1, PolicyTimeout: time.Minute, ChainTimeout: time.Minute}})
	var policies []Policy
	for i := range 4 {
		p := rego(fmt.Sprint("endless", i), User, i, forever)
		p.ServiceType, p.UserID = fmt.Sprint("s", i), fmt.Sprint("u", i%2)
		policies = append(policies, p)
	}
	s := compiled(t, append(policies, rego("innocent", Global, 9, `{"patch": {"seen": true}}`))...)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	ended := make(chan string, 16)
	for i := range 16 {
		asking.Go(func() {
			r := Request{ServiceType: fmt.Sprint("s", i%4), UserID: fmt.Sprint("u", i%2), Payload: payload(t, `{"loop": true}`)}
			_, err := e.Evaluate(ctx, s, r, Options{})
			ended <- outcome(err)
		})
	}
	for e.lanes.Load() < 16 { // they all gave their place away
		_, err := e.Evaluate(t.Context(), s, Request{Payload: payload(t, `{"loop": false}`)}, Options{})
		require.NoError(t, err, "an innocent request is evaluated meanwhile")
	}
	require.Equal(t, max(1, runtime.GOMAXPROCS(0)-1), cap(e.slow), "a core is left to others")
	running := 0
	for _, p := range policies {
		require.LessOrEqual(t, len(s.Find(p.ID).slow), 1, "one evaluation of a policy")
		running += len(s.Find(p.ID).slow)
	}
	for _, owner := range []string{"User u0", "User u1"} {
		e.owners.mu.Lock()
		o := e.owners.of[owner]
		e.owners.mu.Unlock()
		require.Equal(t, max(1, cap(e.slow)/2), cap(o.running), "half of that is left to other owners")
	}
	require.Positive(t, running)
	cancel()
	asking.Wait()
	for range 16 {
		require.Equal(t, context.Canceled.Error(), <-ended)
	}
	require.Empty(t, e.owners.of, "nothing is kept of who waited")
	require.Empty(t, e.slow)
	require.Empty(t, e.slots)
}

// BenchmarkInnocentRequests prints how much slower innocent requests are while 64
// clients ask for an endless policy, and how many are not evaluated.
func BenchmarkInnocentRequests(b *testing.B) {
	e := NewEngine(EngineOptions{})
	endless := rego("endless", User, 1, forever)
	endless.ServiceType = "bad"
	s := compiled(b, endless, rego("innocent", Global, 9, `{"patch": {"seen": true}}`))
	busy := 0
	ask := func() time.Duration {
		began := time.Now()
		if _, err := e.Evaluate(b.Context(), s, Request{ServiceType: "vm", Payload: map[string]any{}}, Options{}); err != nil {
			busy++
		}
		return time.Since(began)
	}
	median := func() time.Duration {
		took := make([]time.Duration, 1500)
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for i := range took {
			<-pace.C
			took[i] = ask()
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	for b.Loop() {
		alone := median()
		ctx, cancel := context.WithCancel(b.Context())
		var asking sync.WaitGroup
		for range 64 {
			asking.Go(func() {
				for ctx.Err() == nil {
					_, _ = e.Evaluate(ctx, s, Request{ServiceType: "bad", Payload: map[string]any{"loop": true}}, Options{})
				}
			})
		}
		beside := median()
		cancel()
		asking.Wait()
		b.ReportMetric(float64(alone.Microseconds()), "µs-alone")
		b.ReportMetric(float64(beside.Microseconds()), "µs-beside")
		b.ReportMetric(float64(beside)/float64(alone), "times")
		b.ReportMetric(float64(busy), "refused")
	}
}

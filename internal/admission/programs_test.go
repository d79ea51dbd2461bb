package admission

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// lazily are policies that are compiled when they are asked.
func lazily(p *programs, policies ...Policy) *Snapshot {
	list := make([]*Compiled, len(policies))
	for i, x := range policies {
		list[i] = p.unread(x)
	}
	return NewSnapshot(uint64(len(list)), list...)
}

// counted keeps so many bytes of programs, and counts how many it makes.
func counted(max int) (p *programs, made *atomic.Int64) {
	made = &atomic.Int64{}
	return newPrograms(max, func(time.Duration) { made.Add(1) }), made
}

// TestWhatIsKeptDecidesNothing has room for one program and for all of them.
func TestWhatIsKeptDecidesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policies, text := patchers(rt)
		for i := range policies {
			switch rapid.IntRange(0, 5).Draw(rt, "code") {
			case 0:
				policies[i].Mode = Shadow
			case 1:
				policies[i].Rego = "package a\n\nallow { true }\n"
			case 2:
				policies[i].Rego = "package dcm.policy.x\n\nresults := {}\n"
			}
		}
		kept, _ := counted(1)
		few := lazily(kept, policies...)
		var list []*Compiled
		for _, p := range policies {
			c, err := Compile(t.Context(), p)
			if err != nil {
				c = Broken(p, why(err))
			}
			list = append(list, c)
		}
		all := NewSnapshot(few.Version(), list...)
		body := payload(t, text)
		service, _ := ServiceTypeOf(body)
		r := Request{Payload: body, ServiceType: service, Labels: LabelsOf(body)}
		for range 2 {
			want, wantErr := patient().Evaluate(t.Context(), all, r, Options{Explain: true})
			got, err := patient().Evaluate(t.Context(), few, r, Options{Explain: true})
			require.Equal(rt, said(t, want, wantErr), said(t, got, err))
			for _, steps := range [][]Step{want.Steps, got.Steps, want.Shadows, got.Shadows} {
				for i := range steps {
					steps[i].Took = 0
				}
			}
			require.Equal(rt, want, got)
			require.LessOrEqual(rt, kept.order.Len(), 1)
		}
		for i, c := range list {
			require.Equal(rt, c.Warnings(t.Context()), few.Find(policies[i].ID).Warnings(t.Context()))
		}
	})
}

func TestWhatNobodyAsksIsLetGo(t *testing.T) {
	kept, made := counted(1)
	a, b := selecting(rego("a", Global, 1, `{}`), "a", nil), selecting(rego("b", Global, 2, `{}`), "b", nil)
	s := lazily(kept, a, b)
	asks := func(service string) {
		_, err := patient().Evaluate(t.Context(), s, Request{ServiceType: service, Payload: map[string]any{}}, Options{})
		require.NoError(t, err)
	}
	asks("c")
	require.Zero(t, made.Load(), "nobody asked for one of them")
	require.Empty(t, s.Find("b").Warnings(t.Context()))
	require.EqualValues(t, 1, made.Swap(0))
	require.Empty(t, kept.at, "who reads what is wrong with it does not ask it")
	asks("a")
	asks("a")
	require.EqualValues(t, 1, made.Load())
	held := s.Find("a").code.now()
	asks("b")
	runtime.GC()
	require.NotNil(t, s.Find("a").code.now(), "who evaluates it has it, and so have others")
	runtime.KeepAlive(held)
	asks("b")
	runtime.GC()
	require.Nil(t, s.Find("a").code.now())
	require.NotNil(t, s.Find("b").code.now())
	asks("a")
	require.EqualValues(t, 3, made.Load())
}

func TestACodeThatTookTooLongToCompileIsTriedAgain(t *testing.T) {
	kept, _ := counted(1 << 20)
	now, tries, busy := time.Unix(0, 0), 0, true
	kept.clock = func() time.Time { return now }
	kept.compile = func(ctx context.Context, rego string, done func()) (*program, *judgement, error) {
		if tries++; busy {
			done()
			return nil, nil, oneFault(CodeTimeout, nil, "compiling takes longer than 5s")
		}
		return compileCode(ctx, rego, done)
	}
	s := lazily(kept, rego("p", Global, 1, `{"reject": true, "reason": "no"}`))
	said := func() string {
		_, err := patient().Evaluate(t.Context(), s, Request{Payload: map[string]any{}}, Options{})
		require.Error(t, err)
		return err.Error()
	}
	require.Contains(t, said(), "cannot be compiled now")
	busy = false
	require.Contains(t, said(), "cannot be compiled now")
	require.Equal(t, 1, tries, "not by every request")
	require.Empty(t, s.Find("p").Warnings(t.Context()), "nothing is wrong with the code")
	now = now.Add(slowAgain)
	require.Contains(t, said(), "no")
	require.NotContains(t, said(), "compiled")
	require.Equal(t, 2, tries)
}

// TestAProgramIsMadeOnceForAllWhoWait lets no program be made until ten wait for it; the
// first of them leaves.
func TestAProgramIsMadeOnceForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, made := counted(1 << 20)
		kept.lane.places = make(chan struct{}, 1)
		kept.lane.places <- struct{}{}
		s := lazily(kept, rego("a", Global, 1, `{"patch": {"a": 1}}`))
		first, leave := context.WithCancel(t.Context())
		ended := make(chan error, 11)
		ask := func(ctx context.Context) {
			_, err := patient().Evaluate(ctx, s, Request{Payload: map[string]any{}}, Options{})
			ended <- err
		}
		go ask(first)
		synctest.Wait()
		for range 10 {
			go ask(t.Context())
		}
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-ended, context.Canceled)
		<-kept.lane.places
		for range 10 {
			require.NoError(t, <-ended)
		}
		synctest.Wait() // who made it has left its place
		require.EqualValues(t, 1, made.Load())
		require.Empty(t, kept.lane.places)
	})
}

// TestWhoWaitsForAProgramTakesNothingFromOthers has one place for evaluations, and a
// program that is not made for longer than a chain may take.
func TestWhoWaitsForAProgramTakesNothingFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine(EngineOptions{Limits: Limits{Concurrency: 1}})
		kept, _ := counted(1 << 20)
		warm := selecting(rego("warm", Global, 1, `{"patch": {"service_type": "cold"}} if input.current_request_payload.moves`), "warm", nil)
		s := lazily(kept, warm, selecting(rego("cold", User, 1, `{}`), "cold", nil))
		ask := func(service string, moves bool) error {
			_, err := e.Evaluate(t.Context(), s, Request{ServiceType: service, Payload: map[string]any{"service_type": service, "moves": moves}}, Options{})
			return err
		}
		require.NoError(t, ask("warm", false))
		kept.lane.places = make(chan struct{}, 1)
		kept.lane.places <- struct{}{}
		ended := make(chan error)
		go func() { ended <- ask("cold", false) }()
		synctest.Wait()
		require.NoError(t, ask("warm", false))
		go func() { ended <- ask("warm", true) }()
		synctest.Wait()
		require.NoError(t, ask("warm", false), "nor does a chain that meets it on its way")
		var failure *PolicyError
		require.ErrorAs(t, <-ended, &failure, "whose time it is")
		require.Equal(t, []string{"cold", CodeTimeout}, []string{failure.PolicyID, failure.Code})
		synctest.Wait() // both began at once, and the other's time would be over, too
		<-kept.lane.places
		require.NoError(t, <-ended, "and the other waited for longer")
		require.NoError(t, ask("warm", true))
	})
}

// TestWhatCannotBeCompiledNowIsCompiledLater has no room in the lane. What is said of a
// code is said of its text, and of nothing else.
func TestWhatCannotBeCompiledNowIsCompiledLater(t *testing.T) {
	kept, made := counted(1)
	s := lazily(kept, rego("a", Global, 1, `{"patch": {"a": 1}}`), rego("b", Global, 2, `{"patch": {"b": 1}}`))
	ask := func() string {
		r, err := patient().Evaluate(t.Context(), s, Request{Payload: map[string]any{}}, Options{})
		return said(t, r, err)
	}
	room := kept.lane
	full := func() { kept.lane = &drafting{authors: owners{share: 1}, patient: 1} }
	full()
	require.Equal(t, ErrBusy.Error(), ask())
	require.Empty(t, s.Find("a").Warnings(t.Context()), "nothing is known of it")
	kept.lane = room
	require.Equal(t, `MODIFIED {"a":1,"b":1}`, ask())
	runtime.GC()
	full()
	require.Equal(t, ErrBusy.Error(), ask())
	require.Empty(t, s.Find("a").Warnings(t.Context()), "it compiled before")
	kept.lane = room
	require.Equal(t, `MODIFIED {"a":1,"b":1}`, ask())
	require.EqualValues(t, 3, made.Load(), "one of two was kept")
}

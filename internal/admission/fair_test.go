package admission

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/test/gen"
)

func TestEvaluationsAtOnceAreAsManyAsCores(t *testing.T) {
	require.Equal(t, runtime.GOMAXPROCS(0), cap(NewEngine(EngineOptions{}).slots), "more would wait for each other while their time runs")
}

// TestWhoAsksTakesTurns has two ask again and again on one core.
func TestWhoAsksTakesTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	snapshot := compiled(t, rego("a", User, 1, `{"reject": false}`))
	e := NewEngine(EngineOptions{})
	const each = 300
	var mu sync.Mutex
	var order []int
	var g errgroup.Group
	for who := range 2 {
		g.Go(func() error {
			for range each {
				if _, err := e.Evaluate(t.Context(), snapshot, Request{Payload: map[string]any{}}, Options{}); err != nil {
					return err
				}
				mu.Lock()
				order = append(order, who)
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	turns := 0
	for i := range order[1:] {
		if order[i] != order[i+1] {
			turns++
		}
	}
	require.Greater(t, turns, each/2, "%v", order)
}

// TestAnEvaluationThatHardlyRanIsNotOutOfTime has the time of an evaluation pass while
// it makes no step, as on a machine that is busy with others.
func TestAnEvaluationThatHardlyRanIsNotOutOfTime(t *testing.T) {
	l := newLanes(Limits{}.withDefaults())
	l.slots <- struct{}{}
	p := compiled(t, rego("a", User, 1, `{}`)).Find("a")
	const limit = time.Minute
	e := newEvaluation(p, asker{}, l, &place{slots: l.slots}, limit)
	defer e.leave()
	e.began = e.began.Add(-time.Hour)
	e.worked(lookEvery)
	for range 100 {
		require.False(t, e.Cancelled())
	}
	require.False(t, e.walks, "nor does it go on in the slow lane")
	e.worked(int(fairWork(limit)))
	require.True(t, e.Cancelled(), "it made steps enough for that time")
	require.True(t, e.ranOut)
}

// TestWhatAFunctionDoesIsWork lists calls that take long between two steps.
func TestWhatAFunctionDoesIsWork(t *testing.T) {
	gen.Unraced()
	long := strings.Repeat("x", 500_000)
	for name, call := range map[string]string{
		"a long text":          `count(concat("", [input.long, input.long]))`,
		"a long pattern match": `regex.match("(a|b|c)*d", input.long)`,
		"a long range":         `count(numbers.range(1, 100000))`,
		"a large value":        `sort(input.many)`,
		"two long lists":       `array.concat(input.many, input.many)`,
		"a long sum":           `sum(input.many)`,
		"a long layout":        `time.format([1, "UTC", input.long])`,
	} {
		t.Run(name, func(t *testing.T) {
			c := compiled(t, Policy{ID: "a", Level: User, Enabled: true, Rego: "package a\n\nmain := {\"x\": " + call + "}"}).Find("a")
			l := newLanes(Limits{}.withDefaults())
			l.slots <- struct{}{}
			e := newEvaluation(c, asker{}, l, &place{slots: l.slots}, time.Minute)
			defer e.leave()
			many := make([]any, 50_000)
			for i := range many {
				many[i] = float64(i)
			}
			v, err := c.code.program.eval(t.Context(), e, termOf(map[string]any{"long": long, "many": many}))
			require.NoError(t, err)
			require.NotNil(t, v)
			require.Greater(t, e.work, int64(500))
		})
	}
}

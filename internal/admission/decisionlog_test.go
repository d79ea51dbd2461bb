package admission

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// shelf is a writer that keeps what it gets.
type shelf struct {
	mu     sync.Mutex
	fail   error
	hold   chan struct{} // nil: it never waits
	begun  chan struct{}
	stored []streams.Decision
	counts map[string]int
}

func (s *shelf) MaxDecision() int { return 2000 }

func (s *shelf) Write(ctx context.Context, ds []streams.Decision) error {
	if s.hold != nil {
		s.begun <- struct{}{}
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.stored = append(s.stored, ds...)
	}
	return s.fail
}

func (s *shelf) count(result string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[result] += n
}

func runLog(t *testing.T, l *DecisionLog) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, l.Run(ctx)) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func TestADecisionLogNeverHoldsUpARequest(t *testing.T) {
	s := &shelf{hold: make(chan struct{}), begun: make(chan struct{}, 100)}
	l := NewDecisionLog(DecisionLogOptions{To: s, Count: s.count})
	d := Decision{Request: Request{Payload: payload(t, `{"a":1}`)}}
	stop := runLog(t, l)
	l.Decided(d)
	<-s.begun // and it does not end
	for range queueLength + 10 {
		l.Decided(d) // would not return
	}
	s.mu.Lock()
	require.Equal(t, map[string]int{DecisionDropped: 10}, s.counts, "what the queue does not take is dropped, and counted")
	s.mu.Unlock()
	close(s.hold)
	stop()
	require.Len(t, s.stored, queueLength+1, "what waited is written before it ends")
	require.Equal(t, map[string]int{DecisionDropped: 10, DecisionStored: queueLength + 1}, s.counts)
	require.Zero(t, l.bytes.Load())
}

func TestWhatWaitsForADecisionLogIsBoundedInBytes(t *testing.T) {
	s := &shelf{}
	l := NewDecisionLog(DecisionLogOptions{To: s, Count: s.count})
	large := Decision{Request: Request{Payload: map[string]any{"a": strings.Repeat("x", 1<<20)}}}
	for range 100 {
		l.Decided(large)
	}
	require.Equal(t, 100-queueBytes>>20+1, s.counts[DecisionDropped])
	require.LessOrEqual(t, l.bytes.Load(), int64(queueBytes))
	runLog(t, l)()
	require.Zero(t, l.bytes.Load())
}

func TestADecisionThatIsTooLargeForAMessageLosesItsPayloads(t *testing.T) {
	s := &shelf{}
	l := NewDecisionLog(DecisionLogOptions{To: s, Worker: "w1"})
	l.Decided(Decision{Request: Request{Payload: map[string]any{"a": strings.Repeat("x", 3000)}, UserID: "ana"}})
	l.Decided(Decision{Err: context.Canceled}) // by who asked: not decided
	runLog(t, l)()
	require.Len(t, s.stored, 1)
	require.Equal(t, "approved", s.stored[0].Outcome)
	r, err := ReadRecord(s.stored[0].Body)
	require.NoError(t, err)
	require.Equal(t, []string{"/request_payload"}, r.Masked)
	require.NotEmpty(t, r.DecisionID)
	require.Equal(t, "ana", r.UserID)
}

func TestOneDecisionThatIsTooLargeTakesNoOtherWithIt(t *testing.T) {
	s := &shelf{}
	l := NewDecisionLog(DecisionLogOptions{To: s, Count: s.count})
	small := Decision{Request: Request{Payload: map[string]any{}}}
	l.Decided(small)
	l.Decided(Decision{Result: Result{Shadows: []Step{{PolicyID: "p", Level: Global, Reason: strings.Repeat("x", 3000)}}}})
	l.Decided(Decision{Request: Request{Labels: map[string]string{"a": strings.Repeat("x", 3000)}}})
	l.Decided(Decision{Request: Request{ServiceType: strings.Repeat("x", 3000)}})
	l.Decided(small)
	runLog(t, l)()
	require.Len(t, s.stored, 4)
	var masked []string
	for _, d := range s.stored {
		require.LessOrEqual(t, len(d.Body), s.MaxDecision())
		r, err := ReadRecord(d.Body)
		require.NoError(t, err)
		masked = append(masked, r.Masked...)
	}
	require.Equal(t, []string{"/shadows", "/labels"}, masked)
	require.Equal(t, map[string]int{DecisionStored: 4, DecisionFailed: 1}, s.counts)
}

func TestWhatPoliciesSayIsCountedAmongWhatWaits(t *testing.T) {
	s := &shelf{}
	l := NewDecisionLog(DecisionLogOptions{To: s, Count: s.count})
	large := strings.Repeat("x", 1<<20)
	explained := Result{Steps: []Step{{Decision: large}}, Shadows: []Step{{Decision: large, Diff: []Change{{Value: large}}, Reason: "no"}}}
	l.Decided(Decision{Result: explained})
	require.Less(t, l.bytes.Load(), int64(1000))
	waits := <-l.queue
	require.Nil(t, waits.d.Result.Steps)
	require.Equal(t, []Step{{Reason: "no"}}, waits.d.Result.Shadows)
	require.NotNil(t, explained.Shadows[0].Decision, "who asked has it")
	for range 50 {
		l.Decided(Decision{Result: Result{Shadows: []Step{{Reason: large}}}})
		l.Decided(Decision{Err: &Rejection{Reason: large}})
	}
	require.Greater(t, s.counts[DecisionDropped], 80)
	require.LessOrEqual(t, l.bytes.Load(), int64(queueBytes))
}

func TestDecisionsThatCannotBeStoredAreCounted(t *testing.T) {
	s := &shelf{fail: errors.New("no")}
	l := NewDecisionLog(DecisionLogOptions{To: s, Count: s.count})
	l.Decided(Decision{})
	runLog(t, l)()
	require.Equal(t, map[string]int{DecisionFailed: 1}, s.counts)

	full := NewDecisionLog(DecisionLogOptions{To: s, Count: s.count, Writable: func() error { return errors.New("the disk is nearly full") }})
	full.Decided(Decision{})
	runLog(t, full)()
	require.Equal(t, map[string]int{DecisionFailed: 1, DecisionDropped: 1}, s.counts)
}

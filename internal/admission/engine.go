package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Limits bound what one evaluation may cost. Zero values mean the defaults.
type Limits struct {
	PolicyTimeout  time.Duration // of one policy, as far as it had a core meanwhile; 100 ms
	ChainTimeout   time.Duration // of the whole chain; 500 ms
	Concurrency    int           // evaluations at once, but for those in the slow lane; one per core
	Sprint         time.Duration // of one policy, until it goes on in the slow lane; 5 ms
	PayloadBytes   int           // of a payload, as it comes and as it leaves a policy, roughly as JSON; 1 MiB
	DecisionBytes  int           // of one decision, roughly as JSON; 256 KiB
	PatchKeys      int           // keys in one patch, at all depths; 1,000
	ConstraintKeys int           // constraints in one decision; 256
	Depth          int           // nesting of payloads, patches and schemas; 64
}

func (l Limits) withDefaults() Limits {
	l.PolicyTimeout = cmp.Or(l.PolicyTimeout, 100*time.Millisecond)
	l.ChainTimeout = cmp.Or(l.ChainTimeout, 500*time.Millisecond)
	l.Concurrency = cmp.Or(l.Concurrency, runtime.GOMAXPROCS(0))
	l.Sprint = cmp.Or(l.Sprint, 5*time.Millisecond)
	l.PayloadBytes = cmp.Or(l.PayloadBytes, 1<<20)
	l.DecisionBytes = cmp.Or(l.DecisionBytes, 256<<10)
	l.PatchKeys = cmp.Or(l.PatchKeys, 1000)
	l.ConstraintKeys = cmp.Or(l.ConstraintKeys, 256)
	l.Depth = cmp.Or(l.Depth, 64)
	return l
}

// EngineOptions has a useful zero value.
type EngineOptions struct {
	Limits Limits
	// Observe, if set, is called for every policy that was evaluated, on the
	// goroutine of the chain.
	Observe func(p *Policy, outcome Outcome, took time.Duration)
	Clock   func() time.Time // of suspensions; nil: the wall clock
}

// Engine evaluates requests. Safe for concurrent use.
type Engine struct {
	limits   Limits
	observe  func(p *Policy, outcome Outcome, took time.Duration)
	clock    func() time.Time
	schemas  *cache[*schema]
	patterns *cache[expression]
	*lanes
}

// NewEngine makes an engine; it starts nothing.
func NewEngine(opt EngineOptions) *Engine {
	l := opt.Limits.withDefaults()
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	return &Engine{
		limits: l, observe: opt.Observe, clock: opt.Clock, lanes: newLanes(l),
		schemas: newCache[*schema](expressionBytes), patterns: newCache[expression](expressionBytes),
	}
}

// grace is how long an evaluation may take to notice that its time is up.
const grace = 250 * time.Millisecond

// Evaluate runs the chain of the policies that match the request. The error is
// one of
//
//   - [*RequestError]: the payload cannot be evaluated
//   - [*Rejection], [*Conflict], [*UnfitError]: the policies say no
//   - [*PolicyError]: a policy failed, so the request does; [ErrTimeout] is in
//     it when time ran out
//   - [ErrBusy], or ctx's own error
//
// With Options.Explain the result has its Steps beside every error of the
// policies.
func (e *Engine) Evaluate(ctx context.Context, s *Snapshot, r Request, opt Options) (Result, error) {
	m := meter{e.limits.PayloadBytes, e.limits.Depth}
	if err := m.json(r.Payload); err != nil {
		return Result{}, requestError(err)
	}
	c := &chain{
		e: e, snapshot: s, request: &r, explain: opt.Explain, search: newSearch(),
		payload: r.Payload, size: e.limits.PayloadBytes - m.bytes,
	}
	c.match()
	if len(c.policies) == 0 {
		return c.result(nil), ctx.Err()
	}
	if err := c.prepare(ctx); err != nil {
		return c.result(err), err
	}
	began := time.Now()
	ended, err := e.bounded(ctx, c.run)
	e.hold(ctx, err, began)
	if !ended {
		return Result{SnapshotVersion: s.version}, err
	}
	result := c.result(err)
	if len(c.shadows) > 0 {
		// Afterwards, and on time of their own: shadows decide nothing, not
		// even that the chain was too slow.
		if ended, _ := e.bounded(ctx, c.rehearse); ended {
			result.Shadows = c.rehearsed
			if opt.Explain {
				result.Steps = c.explained()
			}
		}
	}
	return result, err
}

func requestError(err error) error {
	r := &RequestError{Message: err.Error()}
	var l *located
	if errors.As(err, &l) {
		r.Pointer = l.path.pointer()
	}
	return r
}

// bounded runs f within the time of a chain, on a goroutine of its own: what
// cannot be stopped is left behind, and then ended is false.
func (e *Engine) bounded(ctx context.Context, f func(context.Context, *watch) error) (ended bool, err error) {
	// Who asked before goes first. The goroutine of an evaluation inherits the time slice of
	// who asks, and gives it back: one connection would else have a core for ten milliseconds,
	// as often as it asks, while the others wait.
	runtime.Gosched()
	timer := time.NewTimer(e.limits.ChainTimeout)
	defer timer.Stop()
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C:
		return false, ErrBusy
	}
	w := watch{place: &place{slots: e.slots}, ended: make(chan struct{})}
	defer w.place.leave()
	timer.Reset(e.limits.ChainTimeout)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("evaluation failed: %v", r)
			}
		}()
		grown(0)
		done <- f(ctx, &w)
	}()
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
		w.stop(errChainTime)
	case <-ctx.Done():
		w.stop(ctx.Err())
	}
	timer.Reset(grace)
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
		return false, w.abandon(done)
	}
}

// hold keeps the answer about a suspended policy back for as long as the policy
// would have had, without using anything: who asks for it again and again would
// else ask as fast as the machine can refuse, at the cost of everybody.
func (e *Engine) hold(ctx context.Context, err error, began time.Time) {
	var failure *PolicyError
	if !errors.As(err, &failure) || failure.Code != CodeSuspended {
		return
	}
	timer := time.NewTimer(e.limits.PolicyTimeout - time.Since(began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// grown makes the goroutine's stack as large as an evaluation needs while
// there is nothing on it yet. It grows by copying, and the evaluator is deep:
// else a sixth of the CPU goes there.
//
//go:noinline
func grown(at int) byte {
	var deep [24 << 10]byte
	deep[at] = 1 // or the compiler would leave it out
	return deep[len(deep)-1-at]
}

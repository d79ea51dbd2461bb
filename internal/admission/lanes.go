package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// lanes divide evaluations into two. Each begins with one of the places for all.
// What is not done after a moment gives that place back, so that those who need no
// longer never wait for it, and goes on in the slow lane: one evaluation of a policy,
// few of an owner, and together fewer than there are cores.
type lanes struct {
	slots        chan struct{}
	sprint       time.Duration
	slow         chan struct{}
	owners       owners
	atomic.Int32 // evaluations in the slow lane, those that wait included
}

func newLanes(l Limits) *lanes {
	slow := spareCores()
	return &lanes{
		slots: make(chan struct{}, l.Concurrency), sprint: l.Sprint,
		slow: make(chan struct{}, slow), owners: owners{share: share(slow)},
	}
}

// scope names the owner of a policy.
func (p *Policy) scope() string {
	switch p.Level {
	case Tenant:
		return fmt.Sprintf("%s %s", p.Level, p.TenantID)
	case User:
		return fmt.Sprintf("%s %s", p.Level, p.UserID)
	}
	return p.Level.String()
}

// place is one of the places for all, which a chain gives back once.
type place struct {
	once  sync.Once
	slots chan struct{}
}

func (p *place) leave() { p.once.Do(func() { <-p.slots }) }

// evaluation is one policy being evaluated: the Cancel that the evaluator asks, at
// every step. That is where it is halted, too.
type evaluation struct {
	policy *Compiled
	asker  asker
	lanes  *lanes
	place  *place
	limit  time.Duration // of its own time, which does not run while it waits
	over   atomic.Bool
	ended  chan struct{} // closed with over

	// Of the goroutine that evaluates.
	began  time.Time
	waited time.Duration // for its turn in the slow lane
	work   int64         // in steps of the evaluator
	look   int64         // at the clock, when so much is done
	walks  bool          // it is in the slow lane
	leaves []func()
	ranOut bool // of its own time

	suspended error // it was when its turn came
}

// lookEvery is how much work is done between two looks at the clock.
const lookEvery = 250

func newEvaluation(p *Compiled, who asker, l *lanes, at *place, limit time.Duration) *evaluation {
	return &evaluation{policy: p, asker: who, lanes: l, place: at, limit: limit, ended: make(chan struct{}), began: time.Now(), look: lookEvery}
}

// fairWork is how many steps an evaluation must have made for the time that passed to
// be its own: a tenth or less of what a core does. Where it made fewer it stood back for
// others, and is not to blame: it goes on, for as long as the chain may take.
func fairWork(in time.Duration) int64 { return int64(in / (5 * time.Microsecond)) }

// worked counts what a built-in function does between two steps.
func (e *evaluation) worked(steps int) { e.work += int64(steps) }

// Cancel ends the evaluation at its next step.
func (e *evaluation) Cancel() {
	if !e.over.Swap(true) {
		close(e.ended)
	}
}

// Cancelled is asked at each step.
func (e *evaluation) Cancelled() bool {
	if e.work++; e.work >= e.look && !e.over.Load() {
		e.look = e.work + lookEvery
		e.spend(time.Since(e.began) - e.waited)
	}
	return e.over.Load()
}

// spend holds the evaluation to what it may take, at so much time of its own.
func (e *evaluation) spend(took time.Duration) {
	switch {
	case took >= e.limit && e.work >= fairWork(e.limit):
		e.ranOut = true
		e.Cancel()
	case took >= e.lanes.sprint && e.work >= fairWork(e.lanes.sprint) && !e.walks:
		e.walks = true
		e.change()
	}
}

// change goes over into the slow lane, and waits there for its turn.
func (e *evaluation) change() {
	e.lanes.Add(1)
	e.leaves = append(e.leaves, func() { e.lanes.Add(-1) })
	e.place.leave()
	halted := time.Now()
	scope := e.policy.policy.scope()
	own := e.lanes.owners.lane(scope)
	e.leaves = append(e.leaves, func() { e.lanes.owners.forget(scope) })
	for _, lane := range []chan struct{}{e.policy.slow, own, e.lanes.slow} {
		select {
		case lane <- struct{}{}:
			e.leaves = append(e.leaves, func() { <-lane })
		case <-e.ended:
			return
		}
	}
	e.waited = time.Since(halted)
	if e.suspended = e.policy.breaker.refuses(e.policy, e.asker); e.suspended != nil {
		e.Cancel()
	}
}

// leave gives back what the evaluation has of the lanes.
func (e *evaluation) leave() {
	for i := len(e.leaves) - 1; i >= 0; i-- {
		e.leaves[i]()
	}
}

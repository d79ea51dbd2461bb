package datapath

import "fmt"

// StepsPerEntry is how many steps a table may take for each entry that it may
// hold, by default.
const StepsPerEntry = 8192

// stepsPerRule is what a rule costs before any peer is looked at: it is read,
// sorted and numbered.
const stepsPerRule = 512

// Work counts the steps that making a table takes. It ends what takes more than
// it may, and what nobody waits for any more. A step is about what it takes to
// look at one thing, some ten nanoseconds; how many there are follows from the
// input alone, so that every worker gives up on the same tables. It is one
// table's, and one goroutine's. A nil Work ends nothing.
type Work struct {
	limit, done int
	stop        func() error
	ask         int // how many steps there are when stop is asked again
}

// askEvery is how many steps lie between two questions whether to stop: about a
// millisecond.
const askEvery = 1 << 17

// NewWork allows so many steps. stop, unless nil, says every now and then
// whether to stop, and why.
func NewWork(steps int, stop func() error) *Work { return &Work{limit: steps, stop: stop} }

// Rules spends what so many rules of a list take. Ask it before List.
func (w *Work) Rules(n int) error { return w.spend(n * stepsPerRule) }

// Steps are those spent so far.
func (w *Work) Steps() int {
	if w == nil {
		return 0
	}
	return w.done
}

// spend takes steps before they are gone. The error is a *WorkError, or stop's.
func (w *Work) spend(n int) error {
	if w == nil {
		return nil
	}
	if w.done += n; w.done > w.limit {
		w.done = w.limit
		return &WorkError{Steps: w.limit}
	}
	if w.done >= w.ask && w.stop != nil {
		w.ask = w.done + askEvery
		return w.stop()
	}
	return nil
}

// WorkError says that a table takes more work than it may.
type WorkError struct{ Steps int }

func (e *WorkError) Error() string {
	return fmt.Sprintf("it takes more than %d steps to make: too many rules meet too many peers; use fewer rules, fewer selectors, or wider CIDRs and port ranges, or allow more entries", e.Steps)
}

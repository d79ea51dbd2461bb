package snapshot

import (
	"context"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// flight makes the table of a node for all who ask for it meanwhile.
type flight struct {
	cancel  context.CancelFunc
	waiters int
	// generation of the project that it looks at; 0: it has not begun.
	generation uint64

	done chan struct{} // closed when what follows is there
	a    Answer
	ok   bool
	err  error
}

// ask waits for the table of a node as of a generation of its project or later.
// The last one to give up ends the computation, and waits until it has ended: so
// none outlives the requests for it.
func (t *Tables) ask(ctx context.Context, id policy.NodeID, project uuid.UUID, generation uint64) (Answer, bool, error) {
	f, err := t.board(id, project, generation)
	if err != nil {
		return Answer{}, false, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	t.rooms.leave(project)
	f.waiters--
	last := f.waiters == 0
	if last {
		f.cancel()
		t.land(f, id)
	}
	t.mu.Unlock()
	if last {
		<-f.done
	}
	if err != nil {
		return Answer{}, false, err
	}
	return f.a, f.ok, f.err
}

// board joins a flight that is on its way, or begins one.
func (t *Tables) board(id policy.NodeID, project uuid.UUID, generation uint64) (*flight, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.wait(project); err != nil {
		return nil, err
	}
	f := t.flights[id]
	if f != nil && (f.generation == 0 || f.generation >= generation) {
		t.outcomes[TableShared]++
	} else {
		ctx, cancel := context.WithCancel(context.Background())
		f = &flight{cancel: cancel, done: make(chan struct{})}
		t.flights[id] = f
		go t.fly(ctx, f, id, project)
	}
	f.waiters++
	return f, nil
}

// wait counts a request that waits, with t locked.
func (t *Tables) wait(project uuid.UUID) error {
	err := t.rooms.enter(project)
	if err != nil {
		t.outcomes[TableTooMany]++
	}
	return err
}

// Share computes something else of a project in its turn among those who make
// tables. compute asks proceed all along, about every millisecond, and ends with
// its error. The error is also a *BusyError when too many wait, and what ended ctx.
func (t *Tables) Share(ctx context.Context, project uuid.UUID, compute func(proceed func() error) error) error {
	t.mu.Lock()
	err := t.wait(project)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.rooms.leave(project)
	}()
	turn, err := t.turns.begin(ctx, project)
	if err != nil {
		return err
	}
	defer turn.end()
	return compute(turn.proceed)
}

func (t *Tables) fly(ctx context.Context, f *flight, id policy.NodeID, project uuid.UUID) {
	defer close(f.done)
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.land(f, id)
		if f.ok || f.err != nil { // else the node is gone
			t.outcomes[f.outcome(ctx)]++
		}
	}()
	turn, err := t.turns.begin(ctx, project)
	if err != nil {
		f.err = err
		return
	}
	defer turn.end()
	f.a, f.ok, f.err = t.make(&job{turn, -1}, f, id)
}

// outcome is what became of a flight that ended.
func (f *flight) outcome(ctx context.Context) string {
	switch {
	case f.err == nil && f.a.Refused == nil:
		return TableComputed
	case tooLarge(f.err) || f.err == nil:
		return TableRefused
	case ctx.Err() != nil:
		return TableCancelled
	}
	return TableFailed
}

// land lets nobody board any more, with t locked.
func (t *Tables) land(f *flight, id policy.NodeID) {
	if t.flights[id] == f {
		delete(t.flights, id)
	}
}

func (t *Tables) make(j *job, f *flight, id policy.NodeID) (a Answer, ok bool, err error) {
	e, ok, err := t.model.Enforcement(id)
	if !ok || err != nil {
		return Answer{}, false, err
	}
	t.mu.Lock()
	f.generation = e.Generation
	t.mu.Unlock()
	a, err = t.answer(j, t.place(e), e)
	if closed := e.Close(); err == nil {
		err = closed
	}
	return a, true, err
}

package snapshot

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// turns share a few workers between projects. Of a project one table is made at a
// time, and projects that have more to make come in turn. Those being made share
// the workers in slices, so that one that takes long holds up no other for longer
// than a slice.
type turns struct {
	mu      sync.Mutex
	workers int             // that may run at a time
	idle    int             // of them
	line    []chan struct{} // who waits to run, first come first
	starts  int             // how many more may begin
	making  map[uuid.UUID]bool
	waiting map[uuid.UUID][]chan struct{} // to begin, by project
	ring    []uuid.UUID                   // projects that wait, the next first
}

// perWorker is how many projects have a table half made for each worker: each of
// them holds memory.
const perWorker = 4

func newTurns(workers int) *turns {
	if workers <= 0 {
		workers = max(1, runtime.GOMAXPROCS(0)-1) // one is left to all the others
	}
	return &turns{workers: workers, idle: workers, starts: perWorker * workers, making: map[uuid.UUID]bool{}, waiting: map[uuid.UUID][]chan struct{}{}}
}

// turn is a right to compute. It is one goroutine's.
type turn struct {
	*turns
	ctx     context.Context
	project uuid.UUID // Nil: of none
	asked   int
}

// begin waits until a table of a project may be made. End the turn.
func (t *turns) begin(ctx context.Context, project uuid.UUID) (*turn, error) {
	t.mu.Lock()
	if ready := make(chan struct{}); t.starts > 0 && !t.making[project] {
		t.starts--
		t.making[project] = true
		t.mu.Unlock()
	} else {
		if len(t.waiting[project]) == 0 {
			t.ring = append(t.ring, project)
		}
		t.waiting[project] = append(t.waiting[project], ready)
		t.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			t.mu.Lock()
			defer t.mu.Unlock()
			if !t.forget(project, ready) {
				t.ended(project) // its turn had come
			}
			return nil, context.Cause(ctx)
		}
	}
	turn := &turn{turns: t, ctx: ctx, project: project}
	if err := turn.run(); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended(project)
		return nil, err
	}
	return turn, nil
}

// beside waits for a worker alone, for what has its own bound. End the turn.
func (t *turns) beside(ctx context.Context) (*turn, error) {
	turn := &turn{turns: t, ctx: ctx}
	return turn, turn.run()
}

// run waits for a worker.
func (t *turn) run() error {
	t.mu.Lock()
	if t.idle > 0 {
		t.idle--
		t.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	t.line = append(t.line, ready)
	t.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-t.ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		if i := slices.Index(t.line, ready); i >= 0 {
			t.line = slices.Delete(t.line, i, i+1)
		} else {
			t.rest()
		}
		return context.Cause(t.ctx)
	}
}

// rest gives a worker to who waits first.
func (t *turns) rest() {
	if len(t.line) == 0 {
		t.idle++
		return
	}
	close(t.line[0])
	t.line = t.line[1:]
}

// slice is how many times a turn is asked whether to go on, each about a
// millisecond after the other, before it lets another run.
const slice = 10

// proceed is asked all along a computation. It says when to stop, and lets others
// run: requests that take microseconds at once, and turns after a slice. When it
// says to stop the turn is still to be ended.
func (t *turn) proceed() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	runtime.Gosched()
	if t.asked++; t.asked%slice != 0 {
		return nil
	}
	t.mu.Lock()
	if len(t.line) == 0 {
		t.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	t.line = append(t.line, ready)
	t.rest()
	t.mu.Unlock()
	<-ready // who runs goes on, ends, or stops: it comes soon
	return context.Cause(t.ctx)
}

// end gives the turn back.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest()
	if t.project != uuid.Nil {
		t.ended(t.project)
	}
}

// ended lets the next begin.
func (t *turns) ended(project uuid.UUID) {
	t.starts++
	delete(t.making, project)
	for i := 0; i < len(t.ring) && t.starts > 0; {
		next := t.ring[i]
		if t.making[next] {
			i++
			continue
		}
		t.starts--
		t.making[next] = true
		close(t.waiting[next][0])
		t.waiting[next] = t.waiting[next][1:]
		t.ring = slices.Delete(t.ring, i, i+1)
		if len(t.waiting[next]) > 0 {
			t.ring = append(t.ring, next)
		} else {
			delete(t.waiting, next)
		}
	}
}

// forget takes one who gave up out of the queue; false: its turn has come.
func (t *turns) forget(project uuid.UUID, ready chan struct{}) bool {
	queue := t.waiting[project]
	i := slices.Index(queue, ready)
	if i < 0 {
		return false
	}
	if queue = slices.Delete(queue, i, i+1); len(queue) > 0 {
		t.waiting[project] = queue
		return true
	}
	delete(t.waiting, project)
	t.ring = slices.DeleteFunc(t.ring, func(p uuid.UUID) bool { return p == project })
	return true
}

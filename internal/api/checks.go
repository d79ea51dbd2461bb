package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
)

// checks are what a worker needs in order to serve.
type checks struct {
	log interface {
		State(ctx context.Context) (streams.State, error)
		Head(ctx context.Context) (uint64, error)
	}
	model interface {
		Applied() uint64
		Wait(ctx context.Context, seq uint64) error
	}
	relay      interface{ Ready() error }
	full       func() error // nil: the disk is not watched
	more       []Check
	durability func() string
}

// run runs every check, one after the other; one that waits takes no time from others.
func (k *checks) run(ctx context.Context) (all []resource.Check, failed []string) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	run := []Check{
		{"log", func(ctx context.Context) error { _, err := k.log.State(ctx); return err }}, // over the connection, which the head may not need
		{"projection", k.foldMoves},
		{"relay", func(context.Context) error { return k.relay.Ready() }},
	}
	if k.full != nil {
		run = append(run, Check{"storage", func(context.Context) error { return k.full() }})
	}
	run = append(run, k.more...)
	errs := make([]error, len(run))
	ask := func(i int) { errs[i] = run[i].Probe(ctx) }
	const projection = 1 // may take all the time there is, so it comes last
	for i := range run {
		if i != projection {
			ask(i)
		}
	}
	ask(projection)
	for i, err := range errs {
		c := resource.Check{Name: run[i].Name, Status: "ok"}
		switch {
		case errors.As(err, new(*AdviceError)):
			c.Status, c.Detail = "info", err.Error()
		case err != nil:
			c.Status, c.Detail = "failed", err.Error()
			failed = append(failed, fmt.Sprintf("%s (%v)", c.Name, err))
		}
		all = append(all, c)
	}
	return append(all, resource.Check{Name: "durability", Status: "info", Detail: k.durability()}), failed
}

// foldMoves wants the fold to reach the log's head as it is now. Readers would
// wait that long at most, so a worker that cannot is no good to them.
func (k *checks) foldMoves(ctx context.Context) error {
	head, err := k.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("the log's head is not known")
	}
	if err := k.model.Wait(ctx, head); err != nil {
		return fmt.Errorf("folded up to %d of %d", k.model.Applied(), head)
	}
	return nil
}

// checkPatience bounds one run of all checks.
const checkPatience = 2 * time.Second

// healthCache remembers for a moment whether the worker's checks hold: a thousand
// heartbeats ask once, and it is said to all of them, whether or not who asked is still there.
type healthCache struct {
	mu sync.Mutex
	at time.Time
	ok bool
}

const healthFor = time.Second

func (h *healthCache) healthy(ctx context.Context, check func(context.Context) ([]resource.Check, []string)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) > healthFor {
		_, failed := check(context.WithoutCancel(ctx))
		h.at, h.ok = time.Now(), len(failed) == 0
	}
	return h.ok
}

package author

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/backoff"
)

// Policies is the little an author asks of the API; client.Policies are it.
type Policies interface {
	All(ctx context.Context, project uuid.UUID) iter.Seq2[resource.Policy, error]
	Create(ctx context.Context, project uuid.UUID, d resource.Draft, calls ...client.Call) (resource.Policy, error)
	Revise(ctx context.Context, project, id uuid.UUID, p resource.Patch, calls ...client.Call) (resource.Policy, error)
}

// What became of a draft.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
)

// Result is what became of one draft. Err is set when nothing did, when it was not tried
// (ErrNotTried), or when that is not known (context.Canceled).
type Result struct {
	Outcome string
	Policy  resource.Policy
	Err     error
}

// workers bounds the requests in flight. The log makes one batch out of what
// waits together, so more of them cost little and gain little.
const workers = 24

// tries of a write that the plane could not answer yet, under one key.
const tries = 4

// Apply creates or revises every draft. Results stand in the drafts' order;
// done is called as each is known, from any goroutine.
func Apply(ctx context.Context, p Policies, project uuid.UUID, drafts []Draft, done func()) ([]Result, error) {
	a := applier{policies: p, project: project}
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	results := make([]Result, len(drafts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, d := range drafts {
		g.Go(func() error {
			if gctx.Err() != nil {
				results[i].Err = notTried(ctx)
				return nil
			}
			results[i] = a.apply(gctx, d)
			results[i].Err = cutOff(results[i].Err)
			done()
			return gone(results[i].Err)
		})
	}
	if g.Wait() != nil || ctx.Err() != nil {
		return results, ctx.Err() // each result says what happened to it
	}
	return results, nil
}

// gone is err when it means that trying others is of no use.
func gone(err error) error {
	var away *client.UnavailableError
	if errors.As(err, &away) {
		return err
	}
	return nil
}

// applier knows the policies that exist, by slug.
type applier struct {
	policies Policies
	project  uuid.UUID
	mu       sync.Mutex
	known    map[string]existing
}

// existing is the little to know of a policy that may be revised.
type existing struct{ id, head uuid.UUID }

func (a *applier) look(ctx context.Context) error {
	known := map[string]existing{}
	for p, err := range a.policies.All(ctx, a.project) {
		if err != nil {
			return err
		}
		known[p.Slug] = existing{p.ID, p.HeadRevisionID}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = known
	return nil
}

func (a *applier) find(slug string) (existing, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.known[slug]
	return p, ok
}

func (a *applier) remember(p resource.Policy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[p.Slug] = existing{p.ID, p.HeadRevisionID}
}

// apply brings one policy to its draft. Another author may be at work: what
// was there can be gone, and the reverse, so it looks a second time.
func (a *applier) apply(ctx context.Context, d Draft) Result {
	r := a.attempt(ctx, d)
	var p *client.Problem
	if errors.As(r.Err, &p) && (p.Code == "policy_slug_taken" || p.Code == "policy_not_found") {
		if err := a.look(ctx); err != nil {
			return Result{Err: err}
		}
		r = a.attempt(ctx, d)
	}
	return r
}

func (a *applier) attempt(ctx context.Context, d Draft) (r Result) {
	before, exists := a.find(d.Slug)
	r.Err = patiently(ctx, func(call client.Call) (err error) {
		if !exists {
			r.Outcome = Created
			r.Policy, err = a.policies.Create(ctx, a.project, d.Draft, call)
			return err
		}
		r.Policy, err = a.policies.Revise(ctx, a.project, before.id, d.Patch(), call)
		if r.Outcome = Configured; r.Policy.HeadRevisionID == before.head {
			r.Outcome = Unchanged
		}
		return err
	})
	return r
}

// patiently repeats a write that the plane has stored but not seen yet, or
// could not store yet. Under one key it stays one write.
func patiently(ctx context.Context, write func(client.Call) error) error {
	call := client.Key(uuid.NewString())
	again := backoff.Steady(time.Second)
	for try := 1; ; try++ {
		err := write(call)
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable || try == tries {
			return err
		}
		if again.Pause(ctx) != nil {
			return err
		}
	}
}

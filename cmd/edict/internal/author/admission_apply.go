package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// AdmissionPolicies is the little that an author of admission policies asks of the
// API.
type AdmissionPolicies interface {
	All(ctx context.Context, filter url.Values) iter.Seq2[resource.AdmissionPolicy, error]
	Create(ctx context.Context, draft json.RawMessage, calls ...client.Call) (resource.AdmissionID, error)
	Replace(ctx context.Context, id string, change json.RawMessage, version uint64, calls ...client.Call) (resource.AdmissionPolicy, error)
}

// AdmissionResult is what became of one draft, as in [Result]. ID is "" when
// nothing did, and what a dry run would have made has none.
type AdmissionResult struct {
	Outcome string
	ID      string
	// Warnings are what is wrong with a policy that was taken.
	Warnings []resource.Fault
	Err      error
}

// ApplyAdmission creates or replaces an admission policy for every draft; a name
// is one policy within a level and owner. With dry the plane checks all and
// writes nothing. Results stand in the drafts' order; done is called as each is
// known, from any goroutine.
func ApplyAdmission(ctx context.Context, p AdmissionPolicies, drafts []AdmissionDraft, dry bool, done func()) ([]AdmissionResult, error) {
	a := admissionApplier{policies: p, dry: dry, known: map[AdmissionName]resource.AdmissionPolicy{}}
	for x, err := range p.All(ctx, nil) {
		if err != nil {
			return nil, err
		}
		a.known[NameOf(policy.AdmissionPolicy{Name: x.Name, Level: policy.Level(x.PolicyType), Tenant: x.TenantID, User: x.UserID})] = x
	}
	results := make([]AdmissionResult, len(drafts))
	left := make([]int, len(drafts))
	for i := range left {
		left[i] = i
	}
	for {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		for _, i := range left {
			g.Go(func() error {
				if gctx.Err() != nil {
					results[i].Err = notTried(ctx)
					return nil
				}
				results[i] = a.apply(gctx, drafts[i])
				results[i].Err = cutOff(results[i].Err)
				return gone(results[i].Err)
			})
		}
		err := g.Wait()
		// A priority may be given up by a draft that came later.
		var blocked []int
		for _, i := range left {
			if err == nil && priorityTaken(results[i].Err) {
				blocked = append(blocked, i)
			}
		}
		if ctx.Err() != nil || err != nil || len(blocked) == len(left) || dry {
			blocked = nil
		}
		for range len(left) - len(blocked) {
			done()
		}
		if left = blocked; len(left) == 0 {
			a.moveOn(drafts, results)
			return results, ctx.Err()
		}
	}
}

// moveOn goes through the drafts whose priority is taken by a policy that gives it up by
// another draft. In a dry run, in which nobody gives up anything, they go where that one
// does; else, or where drafts wait for each other, none of them can be the first.
func (a *admissionApplier) moveOn(drafts []AdmissionDraft, results []AdmissionResult) {
	held := map[admissionPriority]AdmissionName{}
	for name, x := range a.known {
		held[admissionPriority{name.Level, name.Owner, int32(x.Priority)}] = name
	}
	at := map[AdmissionName]int{}
	for i, d := range drafts {
		at[NameOf(d.AdmissionPolicy)] = i
	}
	giver := func(i int) (j int, gives bool) {
		level, owner := drafts[i].Scope()
		name, taken := held[admissionPriority{level, owner, drafts[i].Priority}]
		if j, gives = at[name]; !taken || !gives || !priorityTaken(results[i].Err) {
			return 0, false
		}
		return j, drafts[j].Priority != drafts[i].Priority
	}
	for goes := a.dry; goes; {
		goes = false
		for i := range drafts {
			if j, gives := giver(i); gives && results[j].Err == nil {
				results[i].Err, goes = nil, true
			}
		}
	}
	for i := range drafts {
		if j, gives := giver(i); gives && priorityTaken(results[j].Err) {
			results[i].Err = fmt.Errorf("%w; %s gives it up in the same files, and waits in turn: give one of them a free priority first, and apply again", results[i].Err, drafts[j].Name)
		}
	}
}

func priorityTaken(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Code == projector.CodePriorityTaken
}

// admissionApplier knows the policies that existed when it began.
type admissionApplier struct {
	policies AdmissionPolicies
	dry      bool
	known    map[AdmissionName]resource.AdmissionPolicy
}

func (a *admissionApplier) apply(ctx context.Context, d AdmissionDraft) (r AdmissionResult) {
	before, exists := a.known[NameOf(d.AdmissionPolicy)]
	body := policy.AppendAdmissionPolicy(nil, d.AdmissionPolicy)
	r.Err = patiently(ctx, func(call client.Call) error {
		calls := []client.Call{call}
		if a.dry {
			calls = append(calls, client.DryRun)
		}
		if !exists {
			r.Outcome = Created
			made, err := a.policies.Create(ctx, body, calls...)
			if r.ID, r.Warnings = made.ID, made.Warnings; a.dry {
				r.ID = ""
			}
			return err
		}
		now, err := a.policies.Replace(ctx, before.ID, body, 0, calls...)
		r.Warnings = now.Warnings
		if r.ID, r.Outcome = before.ID, Configured; now.Version == before.Version {
			r.Outcome = Unchanged
		}
		return err
	})
	return r
}

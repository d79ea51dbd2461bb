package admission

import (
	"context"
	"time"
)

// Replayed is a recorded decision, and what another set of policies makes of
// the request.
type Replayed struct {
	Was, Now Record
	// Diff leads from the payload that came out then to the one that comes out
	// now, where a request passes both times.
	Diff []Change
	// Unjudged says why the request cannot be evaluated again; empty when it was.
	Unjudged string
}

// Changed says whether the decision would be another one: the outcome, the
// payload, the provider, or the policy that refuses.
func (r *Replayed) Changed() bool {
	if r.Unjudged != "" {
		return false
	}
	was, now := RecordedPolicy{}, RecordedPolicy{}
	if r.Was.Policy != nil && r.Now.Policy != nil {
		was, now = *r.Was.Policy, *r.Now.Policy
	}
	return r.Was.Outcome != r.Now.Outcome || len(r.Diff) > 0 || r.Was.Provider() != r.Now.Provider() || was.ID != now.ID && was.Name != now.Name
}

// Provider is the service provider that was chosen; empty: none.
func (r *Record) Provider() string {
	if r.ServiceProvider == nil {
		return ""
	}
	return r.ServiceProvider.Value
}

// Replay evaluates a recorded request by another set of policies. What was
// masked in what came out then is left out of what comes out now. The error is
// ctx's.
func (e *Engine) Replay(ctx context.Context, s *Snapshot, was Record) (Replayed, error) {
	r := Replayed{Was: was}
	request, whole := was.Request()
	switch {
	case !whole:
		r.Unjudged = "something of the request is masked"
	case was.Policy == nil && (was.Outcome == outcomeBusy || was.Outcome == string(OutcomeError)):
		r.Unjudged = "it was not judged then: " + was.Reason
	}
	if r.Unjudged != "" {
		return r, ctx.Err()
	}
	began := time.Now()
	result, err := e.Evaluate(ctx, s, request, Options{DryRun: true})
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	r.Now = NewRecord("", Decision{Request: request, Result: result, Err: err, DryRun: true, Began: began, Took: time.Since(began)})
	for _, pointer := range was.Masked {
		if p, err := parsePath(pointer); err == nil {
			Mask{p}.Apply(&r.Now)
		}
	}
	if passed(was.Outcome) && passed(r.Now.Outcome) {
		r.Diff = changes(nil, was.came(), r.Now.came())
	}
	return r, nil
}

func passed(outcome string) bool { return outcome == outcomeApproved || outcome == outcomeModified }

// came is the payload that came out.
func (r *Record) came() map[string]any {
	if r.Outcome == outcomeModified {
		return r.ResultPayload
	}
	return r.RequestPayload
}

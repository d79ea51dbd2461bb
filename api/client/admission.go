package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

// Admission is the admission policies of the plane, and the engine that runs them.
type Admission struct{ c *Client }

func admissionPath(more ...string) []string {
	return append([]string{"api", "v1", "policies"}, more...)
}

// Create registers an admission policy and returns its id. What
// is absent in the draft, a JSON object, has its default.
func (a Admission) Create(ctx context.Context, draft json.RawMessage, calls ...Call) (resource.AdmissionID, error) {
	return put[resource.AdmissionID](ctx, a.c, http.MethodPost, draft, calls, admissionPath()...)
}

// Get reads an admission policy.
func (a Admission) Get(ctx context.Context, id string) (resource.AdmissionPolicy, error) {
	return get[resource.AdmissionPolicy](ctx, a.c, nil, admissionPath(id)...)
}

// List reads one page of the admission policies by id; filter as
// the route has it, nil for none.
func (a Admission) List(ctx context.Context, filter url.Values, page Page) (resource.Page[resource.AdmissionPolicy], error) {
	q := page.query()
	for name, values := range filter {
		q[name] = values
	}
	return get[resource.Page[resource.AdmissionPolicy]](ctx, a.c, q, admissionPath()...)
}

// All walks all that the filter lets pass.
func (a Admission) All(ctx context.Context, filter url.Values) iter.Seq2[resource.AdmissionPolicy, error] {
	return all(func(at Page) (resource.Page[resource.AdmissionPolicy], error) {
		return a.List(ctx, filter, at)
	})
}

// Replace replaces what a policy matches, its priority and its
// code, if it still is at version; 0: whatever it is.
func (a Admission) Replace(ctx context.Context, id string, change json.RawMessage, version uint64, calls ...Call) (resource.AdmissionPolicy, error) {
	return put[resource.AdmissionPolicy](ctx, a.c, http.MethodPut, change, append(calls, ifVersion(version)), admissionPath(id)...)
}

// Delete deletes an admission policy.
func (a Admission) Delete(ctx context.Context, id string, calls ...Call) error {
	return remove(ctx, a.c, nil, calls, admissionPath(id)...)
}

func ifVersion(version uint64) Call {
	return func(r *http.Request) {
		if version > 0 {
			r.Header.Set("If-Match", VersionTag(version))
		}
	}
}

// dryRun is the parameter of a write that is to be checked only.
const dryRun = "dry_run"

// DryRun makes a write of an admission policy check everything and write
// nothing.
func DryRun(r *http.Request) {
	q := r.URL.Query()
	q.Set(dryRun, "true")
	r.URL.RawQuery = q.Encode()
}

// Evaluate runs a request, a JSON object, through the admission policies. With
// explain, the answer says what each of them did, and so does a *Problem.
func (a Admission) Evaluate(ctx context.Context, evaluation json.RawMessage, explain bool) (resource.Admitted, error) {
	var out resource.Admitted
	q := url.Values{}
	if explain {
		q.Set("explain", "full")
	}
	_, err := a.c.do(ctx, request{
		method: http.MethodPost, path: []string{"api", "v1", "engine", "evaluate"}, query: q,
		media: "application/json", body: bytes.NewReader(evaluation),
	}, &out)
	return out, err
}

// Decisions reads one page of what admission policies decided, newest first; filter
// as the route has it, nil for none. A page may be empty and have a cursor.
func (a Admission) Decisions(ctx context.Context, filter url.Values, page Page) (resource.Page[resource.Decision], error) {
	q := page.query()
	for name, values := range filter {
		q[name] = values
	}
	return get[resource.Page[resource.Decision]](ctx, a.c, q, "api", "v1", "decisions")
}

// AllDecisions walks all that the filter lets pass, newest first.
func (a Admission) AllDecisions(ctx context.Context, filter url.Values) iter.Seq2[resource.Decision, error] {
	return all(func(at Page) (resource.Page[resource.Decision], error) {
		return a.Decisions(ctx, filter, at)
	})
}

// ExplainDecision says of the decision with that seq what the policies that judged it say
// of its request as they were then, and what the present ones say.
func (a Admission) ExplainDecision(ctx context.Context, seq uint64) (resource.DecisionExplanation, error) {
	return get[resource.DecisionExplanation](ctx, a.c, nil, "api", "v1", "decisions", strconv.FormatUint(seq, 10), "explanation")
}

// DecisionEvents opens the stream of what admission policies decide after the decision
// with the seq lastID; empty: from now on. The caller reads server-sent events from it,
// whose data are decisions, and closes it.
func (a Admission) DecisionEvents(ctx context.Context, filter url.Values, lastID string) (io.ReadCloser, error) {
	q := request{method: http.MethodGet, path: []string{"api", "v1", "decisions", "events"}, query: filter}
	res, err := a.c.stream(ctx, q, lastID)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

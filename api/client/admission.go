package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

func admissionPath(more ...string) []string {
	return append([]string{"api", "v1", "policies"}, more...)
}

// CreateAdmissionPolicy registers an admission policy and returns its id. What
// is absent in the draft, a JSON object, has its default.
func (c *Client) CreateAdmissionPolicy(ctx context.Context, draft json.RawMessage, calls ...Call) (resource.AdmissionID, error) {
	out, _, err := put[resource.AdmissionID](ctx, c, http.MethodPost, draft, calls, admissionPath()...)
	return out, err
}

// AdmissionPolicy reads an admission policy.
func (c *Client) AdmissionPolicy(ctx context.Context, id string) (resource.AdmissionPolicy, error) {
	return get[resource.AdmissionPolicy](ctx, c, nil, admissionPath(id)...)
}

// AdmissionPolicies reads one page of the admission policies by id; filter as
// the route has it, nil for none.
func (c *Client) AdmissionPolicies(ctx context.Context, filter url.Values, page Page) (resource.Page[resource.AdmissionPolicy], error) {
	q := page.query()
	for name, values := range filter {
		q[name] = values
	}
	return listIn[resource.AdmissionPolicy](ctx, c, q, admissionPath()...)
}

// AllAdmissionPolicies walks all that the filter lets pass.
func (c *Client) AllAdmissionPolicies(ctx context.Context, filter url.Values) iter.Seq2[resource.AdmissionPolicy, error] {
	return all(func(at Page) (resource.Page[resource.AdmissionPolicy], error) {
		return c.AdmissionPolicies(ctx, filter, at)
	})
}

// ReplaceAdmissionPolicy replaces what a policy matches, its priority and its
// code, if it still is at version; 0: whatever it is.
func (c *Client) ReplaceAdmissionPolicy(ctx context.Context, id string, change json.RawMessage, version uint64, calls ...Call) (resource.AdmissionPolicy, error) {
	out, _, err := put[resource.AdmissionPolicy](ctx, c, http.MethodPut, change, append(calls, ifVersion(version)), admissionPath(id)...)
	return out, err
}

// DeleteAdmissionPolicy deletes an admission policy.
func (c *Client) DeleteAdmissionPolicy(ctx context.Context, id string, calls ...Call) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: admissionPath(id), calls: calls}, nil)
	return err
}

func ifVersion(version uint64) Call {
	return func(r *http.Request) {
		if version > 0 {
			r.Header.Set("If-Match", strconv.Quote(strconv.FormatUint(version, 10)))
		}
	}
}

// DryRun makes a write of an admission policy check everything and write
// nothing.
func DryRun(r *http.Request) {
	q := r.URL.Query()
	q.Set("dry_run", "true")
	r.URL.RawQuery = q.Encode()
}

// Evaluate runs a request, a JSON object, through the admission policies. With
// explain, the answer says what each of them did, and so does a *Problem.
func (c *Client) Evaluate(ctx context.Context, evaluation json.RawMessage, explain bool) (resource.Admitted, error) {
	var out resource.Admitted
	q := url.Values{}
	if explain {
		q.Set("explain", "full")
	}
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: []string{"api", "v1", "engine", "evaluate"}, query: q,
		media: "application/json", body: bytes.NewReader(evaluation),
	}, &out)
	return out, err
}

package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is one decision as the decision log keeps it.
type Record struct {
	DecisionID string    `json:"decision_id"` // a UUID
	Time       time.Time `json:"time"`        // when the request came, by the worker's clock
	Worker     string    `json:"worker"`
	// SnapshotVersion names the set of policies that decided: the log sequence
	// of its last change.
	SnapshotVersion uint64 `json:"snapshot_version"`
	// DryRun: nothing followed from it.
	DryRun         bool              `json:"dry_run,omitempty"`
	ServiceType    string            `json:"service_type"`
	Labels         map[string]string `json:"labels,omitempty"` // where they are not the payload's own
	UserID         string            `json:"user_id,omitempty"`
	TenantID       string            `json:"tenant_id,omitempty"`
	RequestPayload map[string]any    `json:"request_payload"`
	// Outcome is one of Outcomes.
	Outcome string `json:"outcome"`
	// ResultPayload is what the policies made of the payload, where they
	// changed it.
	ResultPayload   map[string]any   `json:"result_payload,omitempty"`
	ServiceProvider *ServiceProvider `json:"service_provider,omitempty"` // of a request that passed
	// Policy refused the request, or failed; Reason is what was said then.
	Policy *RecordedPolicy `json:"policy,omitempty"`
	Reason string          `json:"reason,omitempty"`
	// Policies judged the request, in the order in which they were asked. Records of
	// workers of a release before have none.
	Policies        []Judge `json:"policies,omitempty"`
	PoliciesLeftOut int     `json:"policies_left_out,omitempty"`
	// Shadows are the shadow policies that matched, and what each would have
	// done.
	Shadows        []RecordedShadow `json:"shadows,omitempty"`
	ShadowsLeftOut int              `json:"shadows_left_out,omitempty"`
	TookNS         int64            `json:"took_ns"`
	// Masked are the JSON pointers into this record at which something was taken
	// out.
	Masked []string `json:"masked,omitempty"`
}

// RecordedPolicy names a policy.
type RecordedPolicy struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// NewRecord is a decision's record, without an id and unmasked. It shares the
// payloads.
func NewRecord(worker string, d Decision) Record {
	r := Record{
		Time: d.Began.UTC(), Worker: worker, SnapshotVersion: d.Result.SnapshotVersion, DryRun: d.DryRun,
		ServiceType: d.Request.ServiceType, UserID: d.Request.UserID, TenantID: d.Request.TenantID,
		RequestPayload: d.Request.Payload, Outcome: OutcomeOf(d.Result, d.Err), TookNS: d.Took.Nanoseconds(),
	}
	if !maps.Equal(d.Request.Labels, LabelsOf(d.Request.Payload)) {
		r.Labels = d.Request.Labels
	}
	r.shadows(d.Result.Shadows)
	if d.Err != nil {
		r.Policy, r.Reason = blamed(d.Err)
		r.judges(d.Result.Judges)
		return r
	}
	r.judges(d.Result.Judges)
	r.ServiceProvider = &d.Result.ServiceProvider
	if d.Result.Status == Modified {
		r.ResultPayload = d.Result.Payload
	}
	return r
}

// blamed is the policy that an error names, and the error in words.
func blamed(err error) (*RecordedPolicy, string) {
	var (
		rejection *Rejection
		conflict  *Conflict
		failure   *PolicyError
		unfit     *UnfitError
	)
	switch {
	case errors.As(err, &unfit):
		return &RecordedPolicy{unfit.PolicyID, unfit.PolicyName}, err.Error()
	case errors.As(err, &rejection):
		return &RecordedPolicy{rejection.PolicyID, rejection.PolicyName}, rejection.Reason
	case errors.As(err, &conflict):
		return &RecordedPolicy{conflict.PolicyID, conflict.PolicyName}, join(conflict.Violations)
	case errors.As(err, &failure):
		return &RecordedPolicy{failure.PolicyID, failure.PolicyName}, err.Error()
	}
	return nil, err.Error()
}

// ReadRecord reads a record as it was written; numbers are json.Number.
func ReadRecord(text []byte) (r Record, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	err = d.Decode(&r)
	return r, err
}

// Request is what was asked; false when something of it was masked.
func (r *Record) Request() (Request, bool) {
	for _, m := range r.Masked {
		field, _, _ := strings.Cut(strings.TrimPrefix(m, "/"), "/")
		switch field {
		case "", fieldRequest, fieldUser, fieldTenant, fieldLabels:
			return Request{}, false
		}
	}
	req := Request{ServiceType: r.ServiceType, Labels: r.Labels, Payload: r.RequestPayload, UserID: r.UserID, TenantID: r.TenantID}
	if req.Labels == nil {
		req.Labels = LabelsOf(req.Payload)
	}
	return req, true
}

// Mask takes values out of records before they are written.
type Mask []path

// Fields of a record that can be masked, whole, and payloads in part.
const (
	fieldRequest = "request_payload"
	fieldResult  = "result_payload"
	fieldUser    = "user_id"
	fieldTenant  = "tenant_id"
	fieldLabels  = "labels"
	fieldReason  = "reason"
	fieldShadows = "shadows"
)

var maskable = []string{fieldRequest, fieldResult, fieldUser, fieldTenant, fieldLabels, fieldReason, fieldShadows}

// ParseMask reads JSON pointers into records. What is taken out of
// request_payload is taken out of result_payload, too.
func ParseMask(pointers []string) (Mask, error) {
	var m Mask
	var faults []error
	for _, text := range pointers {
		p, err := parsePath(text)
		switch {
		case err != nil:
			faults = append(faults, err)
		case !strings.HasPrefix(text, "/"):
			faults = append(faults, fmt.Errorf("%q is no JSON pointer; want one such as /request_payload/password", text))
		case !slices.Contains(maskable, p[0]), len(p) > 1 && p[0] != fieldRequest && p[0] != fieldResult:
			faults = append(faults, fmt.Errorf("%q: a record can be masked at /%s, and below the payloads", text, strings.Join(maskable, ", /")))
		default:
			m = append(m, p)
			if p[0] == fieldRequest {
				m = append(m, append(path{fieldResult}, p[1:]...))
			}
		}
	}
	return m, errors.Join(faults...)
}

// Apply masks a record, and notes what it took out. The payloads themselves are
// left as they are.
func (m Mask) Apply(r *Record) {
	for _, p := range m {
		if r.take(p) {
			r.Masked = append(r.Masked, p.pointer())
		}
	}
}

// take empties the record at a path; false when nothing was there.
func (r *Record) take(p path) (taken bool) {
	emptied := func(field *string) bool {
		taken := *field != ""
		*field = ""
		return taken
	}
	switch p[0] {
	case fieldUser:
		return emptied(&r.UserID)
	case fieldTenant:
		return emptied(&r.TenantID)
	case fieldReason:
		return emptied(&r.Reason)
	case fieldLabels:
		taken, r.Labels = r.Labels != nil, nil
	case fieldShadows:
		taken, r.Shadows = r.Shadows != nil, nil
	case fieldRequest:
		r.RequestPayload, taken = without(r.RequestPayload, p[1:])
	case fieldResult:
		r.ResultPayload, taken = without(r.ResultPayload, p[1:])
	}
	return taken
}

// without is an object without what is at the path; an element of an array
// becomes null, so that the others keep their places.
func without(payload map[string]any, p path) (map[string]any, bool) {
	if payload == nil {
		return nil, false
	}
	if len(p) == 0 {
		return nil, true
	}
	if _, there := p.in(payload); !there {
		return payload, false
	}
	return cut(payload, p).(map[string]any), true
}

// cut copies what it changes. The path is there.
func cut(v any, p path) any {
	switch at := v.(type) {
	case map[string]any:
		at = maps.Clone(at)
		if len(p) == 1 {
			delete(at, p[0])
		} else {
			at[p[0]] = cut(at[p[0]], p[1:])
		}
		return at
	case []any:
		at = slices.Clone(at)
		i, _ := strconv.Atoi(p[0]) // the path is there
		if len(p) == 1 {
			at[i] = nil
		} else {
			at[i] = cut(at[i], p[1:])
		}
		return at
	}
	return v
}

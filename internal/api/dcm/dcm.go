// Package dcm is the v1alpha1 surface of admission policies, as existing clients
// of DCM speak it: their fields, their limits, their order of lists and their form
// of an error. It translates, and decides nothing: what can be done with admission
// policies is the same for every surface, and comes from UseCases.
//
// The surface knows policies of the levels GLOBAL and USER.
package dcm

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// UseCases are what the surface needs of one request's admission policies. The
// policy of the request is the one that its path names. An error is the problem to
// answer with, or a fault of the plane.
type UseCases interface {
	// NewID makes the id of a policy whose author chose none.
	NewID() (policy.AdmissionPolicyID, error)
	// Create registers a policy. In a dry run it is returned with version 0.
	Create(id policy.AdmissionPolicyID, d policy.AdmissionPolicy) (projector.AdmissionPolicy, error)
	// Read returns the policy of the request, which is not found unless shown says
	// that the surface has it.
	Read(shown func(projector.AdmissionPolicy) bool) (projector.AdmissionPolicy, error)
	// List returns the policies for which keep is true.
	List(keep func(projector.AdmissionPolicy) bool) []projector.AdmissionPolicy
	// Change makes the policy of the request what change makes of it.
	Change(change func(d *policy.AdmissionPolicy) error) (projector.AdmissionPolicy, error)
	// Evaluate judges a request, whose payload is at a JSON pointer of the body.
	Evaluate(pointer string, r admission.Request) (admission.Result, *resource.Explanation, error)
}

// Answer is what the surface answers with.
type Answer struct {
	Status   int
	Location string // of what was made, relative to the list of policies; empty: nothing was
	Body     any
}

// payloadPointer is where the payload is in the body of an evaluation.
const payloadPointer = "/service_instance/spec"

var (
	validID = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	levels  = map[string]policy.Level{"GLOBAL": policy.Global, "USER": policy.User}
)

// Create makes a policy of a request's body. The query may name its id.
func Create(u UseCases, query url.Values, body []byte) (Answer, error) {
	f, err := readFields(body)
	if err != nil {
		return Answer{}, err
	}
	id := policy.AdmissionPolicyID(query.Get("id"))
	if id == "" {
		if id, err = u.NewID(); err != nil {
			return Answer{}, err
		}
	} else if !validID.MatchString(string(id)) {
		return Answer{}, invalid("id %q: want 1 to 63 of a-z, 0-9 and '-', the first a letter, the last no '-'", id)
	}
	d := policy.AdmissionPolicy{Priority: policy.DefaultAdmissionPriority, Mode: policy.Enforce}
	level, ok := levels[deref(f.PolicyType)]
	if !ok {
		return Answer{}, invalid("policy_type is GLOBAL or USER, not %q", deref(f.PolicyType))
	}
	d.Level = level
	if err := f.apply(&d); err != nil {
		return Answer{}, err
	}
	stored, err := u.Create(id, d)
	switch {
	case err != nil:
		return Answer{}, err
	case stored.Version == 0: // a dry run
		return Answer{Status: http.StatusOK, Body: show(stored)}, nil
	}
	return Answer{Status: http.StatusCreated, Location: string(id), Body: show(stored)}, nil
}

// Get reads the policy of the request.
func Get(u UseCases) (Answer, error) {
	stored, err := u.Read(Shows)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Status: http.StatusOK, Body: show(stored)}, nil
}

// Update changes the policy of the request by a merge patch.
func Update(u UseCases, body []byte) (Answer, error) {
	f, err := readFields(body)
	if err != nil {
		return Answer{}, err
	}
	stored, err := u.Read(Shows)
	if err != nil {
		return Answer{}, err
	}
	if err := f.unchanged(show(stored)); err != nil {
		return Answer{}, err
	}
	if stored, err = u.Change(f.apply); err != nil {
		return Answer{}, err
	}
	return Answer{Status: http.StatusOK, Body: show(stored)}, nil
}

// Evaluate runs a service instance through the policies that match it.
func Evaluate(u UseCases, body []byte) (Answer, error) {
	var in resource.AlphaEvaluation
	members, err := decodeOne(body, &in)
	if err != nil {
		return Answer{}, err
	}
	if instance := members[folded("service_instance")]; len(instance) > 0 {
		if _, err := membersOf(instance); err != nil {
			return Answer{}, err
		}
	}
	spec, err := specOf(in.ServiceInstance.Spec)
	if err != nil {
		return Answer{}, err
	}
	if _, ok := admission.ServiceTypeOf(spec); !ok {
		return Answer{}, invalid("service type is required")
	}
	request, err := admission.NewRequest(spec, "", "")
	if err != nil {
		return Answer{}, wrongType("service_instance.spec: %v", err)
	}
	result, explain, err := u.Evaluate(payloadPointer, request)
	if err != nil {
		return Answer{}, err
	}
	out := resource.AlphaAdmitted{SelectedProvider: result.ServiceProvider.Value, Status: string(result.Status), Explain: explain}
	if out.EvaluatedServiceInstance.Spec, err = json.Marshal(result.Payload); err != nil {
		return Answer{}, fmt.Errorf("encode the payload: %w", err)
	}
	return Answer{Status: http.StatusOK, Body: out}, nil
}

// Health says that the surface answers.
func Health() Answer {
	return Answer{Status: http.StatusOK, Body: resource.AlphaHealth{Status: "ok", Path: "health"}}
}

// Shows reports whether the surface knows the policy's level.
func Shows(x projector.AdmissionPolicy) bool { return x.Document.Level != policy.Tenant }

func show(x projector.AdmissionPolicy) resource.AlphaPolicy {
	d := x.Document
	out := resource.AlphaPolicy{
		Path: "policies/" + string(x.ID), ID: string(x.ID), DisplayName: d.Name, Description: d.Description,
		PolicyType: strings.ToUpper(string(d.Level)), LabelSelector: d.Labels, Priority: int(d.Priority), RegoCode: d.Rego,
		Enabled: !d.Disabled, CreateTime: x.CreatedAt, UpdateTime: x.UpdatedAt,
	}
	if d.ServiceType != "" {
		out.LabelSelector = map[string]string{}
		maps.Copy(out.LabelSelector, d.Labels)
		out.LabelSelector[admission.ServiceTypeLabel] = d.ServiceType
	}
	return out
}

// specOf reads a member that must be there and an object.
func specOf(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, invalid("service_instance.spec is required")
	}
	spec, err := admission.ParsePayload(raw)
	if err != nil {
		return nil, wrongType("service_instance.spec: want an object: %v", err)
	}
	return spec, nil
}

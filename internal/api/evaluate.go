package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/policy"
)

func (h *admissionHandlers) evaluate(c *call) error {
	in, err := decoded(c, policy.DecodeEvaluation)
	if err != nil {
		return err
	}
	payload, err := admission.ParseValid(in.Payload)
	if err != nil {
		return unadmitted(err, inEvaluation)
	}
	request, err := admission.NewRequest(payload, in.User, in.Tenant)
	if err != nil {
		return unadmitted(err, inEvaluation)
	}
	result, explain, err := h.policies.judge(c, inEvaluation, request)
	if err != nil {
		return err
	}
	out := resource.Admitted{Status: string(result.Status), Explain: explain}
	out.ServiceProvider.Value = result.ServiceProvider.Value
	out.ServiceProvider.Constraints = resource.ProviderConstraints(result.ServiceProvider.Constraints)
	if out.RequestPayload, err = admission.AppendJSON(nil, result.Payload); err != nil {
		return fmt.Errorf("encode the payload: %w", err)
	}
	return c.json(http.StatusOK, out)
}

// inEvaluation is where the payload is in the body of an evaluation.
const inEvaluation = "/request_payload"

// unadmitted makes a problem of what the engine says against a request, of
// which the body has the payload at a JSON pointer.
func unadmitted(err error, payload string) error {
	var (
		rejection *admission.Rejection
		conflict  *admission.Conflict
		failure   *admission.PolicyError
		request   *admission.RequestError
		unfit     *admission.UnfitError
	)
	switch {
	case errors.As(err, &unfit):
		pr := problem(http.StatusConflict, CodeInvalidPatched, "%v (policy id %s)", unfit, unfit.PolicyID)
		pr.Policy = &resource.Deciding{ID: unfit.PolicyID, Name: unfit.PolicyName}
		for _, m := range unfit.Misfits {
			pr.Errors = append(pr.Errors, resource.Fault{Pointer: payload + m.Pointer, Code: CodeInvalidPatched, Detail: m.Reason})
		}
		return withCause(pr, err)
	case errors.As(err, &rejection):
		pr := problem(http.StatusForbidden, CodeRejected, "admission policy %q (%s) rejects the request: %s", rejection.PolicyName, rejection.PolicyID, rejection.Reason)
		pr.Policy = &resource.Deciding{ID: rejection.PolicyID, Name: rejection.PolicyName}
		pr.Errors = violationsOf(rejection.Violations, payload)
		return withCause(pr, err)
	case errors.As(err, &conflict):
		pr := problem(http.StatusConflict, CodePolicyConflict, "%v", conflict)
		pr.Title = "Policy Conflict Error"
		pr.Policy = &resource.Deciding{ID: conflict.PolicyID, Name: conflict.PolicyName}
		pr.Errors = violationsOf(conflict.Violations, payload)
		return withCause(pr, err)
	case errors.As(err, &failure):
		code := CodePolicyFailed
		if errors.Is(err, admission.ErrTimeout) {
			code = CodePolicyTimeout
		}
		pr := problem(http.StatusInternalServerError, code, "%v (policy id %s)", failure, failure.PolicyID)
		pr.Policy = &resource.Deciding{ID: failure.PolicyID, Name: failure.PolicyName}
		return withCause(pr, err)
	case errors.As(err, &request) && request.WrongType:
		return broken(http.StatusBadRequest, policy.CodeWrongType, payload+request.Pointer, "%v", request)
	case errors.As(err, &request):
		return broken(http.StatusUnprocessableEntity, CodeInvalidPayload, payload+request.Pointer, "%v", request)
	case errors.Is(err, admission.ErrBusy):
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "%v", err)
	case errors.Is(err, admission.ErrTimeout):
		return withCause(problem(http.StatusInternalServerError, CodePolicyTimeout, "%v", err), err)
	}
	return err
}

// caused is a problem that still knows what it was made of, for those who say
// it in another way.
type caused struct {
	*resource.Problem
	cause error
}

func withCause(pr *resource.Problem, cause error) error { return &caused{pr, cause} }

// Unwrap gives both, so that a problem is found as one.
func (c *caused) Unwrap() []error { return []error{c.Problem, c.cause} }

func violationsOf(violations []admission.Violation, payload string) []resource.Fault {
	var out []resource.Fault
	for _, v := range violations {
		out = append(out, resource.Fault{
			Pointer: payload + v.Pointer, Code: CodePolicyConflict,
			Detail: fmt.Sprintf("%s (constraint of admission policy %q, %s)", v.Reason, v.PolicyName, v.PolicyID),
		})
	}
	return out
}

// judge runs a request through the chain, of which the body has the payload at
// a JSON pointer. The error is a problem; with ?explain=full both have the
// explanation.
func (a *admissionPolicies) judge(c *call, payload string, r admission.Request) (admission.Result, *resource.Explanation, error) {
	full := false
	switch text := c.r.URL.Query().Get("explain"); text {
	case "":
	case "full":
		full = true
	default:
		return admission.Result{}, nil, broken(http.StatusBadRequest, CodeBadParameter, "/explain", "explain is full or absent, not %q", text)
	}
	r.Caller = c.principal
	result, err := a.registry.Evaluate(c.r.Context(), r, admission.Options{Explain: full})
	explain, broken := explanationOf(result)
	if broken != nil {
		return result, nil, broken
	}
	if err == nil {
		return result, explain, nil
	}
	err = unadmitted(err, payload)
	var pr *resource.Problem
	if errors.As(err, &pr) {
		pr.Explain = explain
	}
	return result, explain, err
}

// explanationOf is what each policy did, if that was asked for.
func explanationOf(result admission.Result) (*resource.Explanation, error) {
	if result.Steps == nil {
		return nil, nil
	}
	explain := &resource.Explanation{SnapshotVersion: result.SnapshotVersion, Steps: make([]json.RawMessage, len(result.Steps))}
	for i, step := range result.Steps {
		b, err := json.Marshal(step)
		if err != nil {
			return nil, fmt.Errorf("encode step %d: %w", i, err)
		}
		explain.Steps[i] = b
	}
	return explain, nil
}

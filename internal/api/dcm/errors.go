package dcm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// invalid is an error in what a client sent. Clients see no code on this surface,
// so that of a problem stands for any.
func invalid(format string, args ...any) error {
	return resource.NewProblem(http.StatusBadRequest, policy.CodeMissing, format, args...)
}

func wrongType(format string, args ...any) error {
	return resource.NewProblem(http.StatusBadRequest, policy.CodeWrongType, format, args...)
}

// PolicyError is the surface's form of an error of managing policies: of a
// problem, and of the error that it was made of.
func PolicyError(err error, pr *resource.Problem) resource.AlphaError {
	out := resource.AlphaError{Status: pr.Status, Detail: pr.Detail}
	switch {
	case pr.Status == http.StatusUnprocessableEntity || pr.Status == http.StatusBadRequest:
		out.Type, out.Status, out.Title = "INVALID_ARGUMENT", http.StatusBadRequest, "Invalid argument"
	case pr.Status == http.StatusNotFound:
		out.Type, out.Title = "NOT_FOUND", "Not found"
	case pr.Status == http.StatusPreconditionFailed:
		out.Type, out.Title = "ABORTED", "Changed meanwhile"
	case pr.Status == http.StatusConflict:
		out.Type, out.Title = "ALREADY_EXISTS", "Already exists"
	case pr.Status >= http.StatusInternalServerError && pr.Status != http.StatusInternalServerError:
		out.Type, out.Title = "UNAVAILABLE", "Unavailable"
	case pr.Status == http.StatusInternalServerError:
		out.Type, out.Title = "INTERNAL", "Internal error"
	default:
		out.Type, out.Status, out.Title = "INVALID_ARGUMENT", pr.Status, "Invalid argument"
	}
	var compile *admission.CompileError
	switch {
	case pr.Code == projector.CodeNameTaken:
		out.Detail = "a policy with this display name and policy type exists: " + pr.Detail
	case pr.Code == projector.CodePriorityTaken:
		out.Detail = "a policy with this priority and policy type exists: " + pr.Detail
	case errors.As(err, &compile):
		var lines []string
		for _, f := range pr.Errors {
			lines = append(lines, f.Detail+" ("+f.Code+")")
		}
		out.Detail = "rego_code does not compile: " + strings.Join(lines, "; ")
	}
	return out
}

// EngineError is the surface's form of an error of an evaluation, with the bare
// reasons that its clients know.
func EngineError(err error, pr *resource.Problem) resource.AlphaError {
	out := resource.AlphaError{Type: "about:blank", Status: pr.Status, Title: http.StatusText(pr.Status), Detail: pr.Detail, Explain: pr.Explain}
	if pr.Status == http.StatusUnprocessableEntity {
		out.Status, out.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
	}
	var (
		rejection *admission.Rejection
		conflict  *admission.Conflict
		failure   *admission.PolicyError
	)
	switch {
	case errors.As(err, &rejection):
		out.Status, out.Title = http.StatusNotAcceptable, fmt.Sprintf("Request rejected by policy '%s'", rejection.PolicyID)
		out.Detail = rejection.Reason
	case errors.As(err, &conflict):
		out.Title, out.Detail = conflictOf(conflict)
	case errors.As(err, &failure), errors.Is(err, admission.ErrTimeout):
		out.Title = "Policy evaluation failed"
	}
	return out
}

func conflictOf(c *admission.Conflict) (title, detail string) {
	title = fmt.Sprintf("Policy '%s' conflicts with a constraint", c.PolicyID)
	if len(c.Violations) > 0 {
		title = fmt.Sprintf("Policy '%s' conflicts on field '%s'", c.PolicyID, c.Violations[0].Path)
	}
	var reasons []string
	for _, v := range c.Violations {
		reasons = append(reasons, fmt.Sprintf("%s (set by policy '%s')", v, v.PolicyID))
	}
	return title, strings.Join(reasons, "; ")
}

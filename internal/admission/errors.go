package admission

import (
	"errors"
	"fmt"
	"strings"
)

// Codes of a [PolicyError] and of a [Fault]; those of the Rego compiler
// ("rego_parse_error", "rego_type_error", ...) and evaluator
// ("eval_conflict_error", "eval_builtin_error", ...) are passed on as they are.
const (
	CodeTimeout           = "timeout"            // the policy used up its time
	CodeSuspended         = "suspended"          // the policy ran out of time again and again for who asks, or an earlier evaluation of it does not end
	CodeInvalidDecision   = "invalid_decision"   // a field that is unknown or of the wrong type
	CodeInvalidConstraint = "invalid_constraint" // no path, no schema, or a keyword that does not exist
	CodeTooLarge          = "too_large"          // a decision or a policy beyond its limits
	CodeForbidden         = "forbidden"          // Rego that reaches outside its own package
)

// ErrTimeout is what [errors.Is] finds in the error of an evaluation that ran
// out of time, the policy's or the chain's.
var ErrTimeout = errors.New("evaluation ran out of time")

// ErrBusy means that the engine evaluates as much as it may and the request
// waited in vain: try again later.
var ErrBusy = errors.New("too many evaluations at once; try again")

// Fault is one thing wrong with Rego code. Row and Col count from 1; both are 0
// where there is no position.
type Fault struct {
	Code    string
	Message string
	Row     int
	Col     int
}

func (f Fault) String() string {
	if f.Row == 0 {
		return f.Code + ": " + f.Message
	}
	return fmt.Sprintf("%d:%d: %s: %s", f.Row, f.Col, f.Code, f.Message)
}

// CompileError lists everything that is wrong with a policy's Rego, by
// position; there is at least one fault.
type CompileError struct{ Faults []Fault }

func (e *CompileError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// RequestError is a request that cannot be evaluated, whatever the policies.
// Pointer is a JSON pointer into the payload, empty for the whole of it.
type RequestError struct {
	Pointer string
	Message string
	// WrongType: what policies are matched by is of another type than it must be.
	WrongType bool
}

func (e *RequestError) Error() string { return "request payload" + e.Pointer + ": " + e.Message }

// Rejection is a policy's no: it set reject, or the value that the request came
// with breaks a constraint of the policy and no other policy changed it.
type Rejection struct {
	PolicyID   string
	PolicyName string
	Reason     string
	// Violations are the broken constraints, if that was the cause.
	Violations []Violation
}

func (e *Rejection) Error() string {
	return fmt.Sprintf("rejected by admission policy %q: %s", e.PolicyName, e.Reason)
}

// Conflict is the specification's "Policy Conflict Error": a policy loosens or
// breaks what another one holds. The policy named is the one whose decision
// cannot stand: for a patch or a constraint the later one; in the final check
// the one that set the constraint.
type Conflict struct {
	PolicyID   string
	PolicyName string
	Violations []Violation // at least one, ordered by path
}

func (e *Conflict) Error() string {
	return fmt.Sprintf("admission policy %q is in conflict: %s", e.PolicyName, join(e.Violations))
}

// Violation is one broken constraint.
type Violation struct {
	// Path is the constrained path, dotted where that is unambiguous and a JSON
	// pointer otherwise; "service_provider" for the provider.
	Path string
	// Pointer is the same as a JSON pointer into the payload; empty for the
	// provider.
	Pointer string
	// PolicyID and PolicyName say who set the constraint.
	PolicyID   string
	PolicyName string
	Reason     string
}

func (v Violation) String() string { return v.Path + ": " + v.Reason }

func join(violations []Violation) string {
	texts := make([]string, len(violations))
	for i, v := range violations {
		texts[i] = fmt.Sprintf("%s (constraint of admission policy %q)", v, v.PolicyName)
	}
	return strings.Join(texts, "; ")
}

// PolicyError is a policy that failed: evaluation ended in an error, ran out of
// time, or gave something that is no decision. The request fails with it: a
// policy that cannot speak has not said yes. Row and Col as in [Fault].
type PolicyError struct {
	PolicyID   string
	PolicyName string
	Code       string
	Field      string // of the decision, where one is to blame
	Message    string
	Row        int
	Col        int
}

func (e *PolicyError) Error() string {
	at := ""
	if e.Row > 0 {
		at = fmt.Sprintf(" at %d:%d", e.Row, e.Col)
	}
	what := e.Message
	if e.Field != "" {
		what = e.Field + ": " + what
	}
	return fmt.Sprintf("admission policy %q failed%s: %s: %s", e.PolicyName, at, e.Code, what)
}

// Is makes a policy's timeout an [ErrTimeout].
func (e *PolicyError) Is(target error) bool { return target == ErrTimeout && e.Code == CodeTimeout }

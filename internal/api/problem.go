package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Codes of problems that are the API's own; those of the fold and of the
// domain pass through (contracts, statuses).
const (
	CodeRouteNotFound      = "route_not_found"
	CodeMethodNotAllowed   = "method_not_allowed"
	CodeBodyTooLarge       = "body_too_large"
	CodeUnsupportedMedia   = "unsupported_media_type"
	CodeBadCursor          = "bad_cursor"
	CodeBadLastEventID     = "bad_last_event_id"
	CodeNotAcceptable      = "not_acceptable"
	CodeBadHeader          = "bad_header"
	CodeBadParameter       = policy.CodeWrongType
	CodeNotYet             = "not_yet"
	CodePolicyNotFound     = "policy_not_found"
	CodeNoDecisionLog      = "no_decision_log"
	CodeDecisionNotFound   = "decision_not_found"
	CodeRevisionNotFound   = "revision_not_visible"
	CodeNodeNotFound       = "node_not_found"
	CodeProjectionBehind   = "projection_behind"
	CodeStarting           = "starting"
	CodeContended          = "contended"
	CodeLogUnavailable     = "log_unavailable"
	CodeStorageLow         = "storage_low"
	CodeKeyReused          = "idempotency_key_reused"
	CodePreconditionFailed = "precondition_failed"
	CodeSnapshotRunning    = "snapshot_running"
	CodeCompactionRunning  = "compaction_running"
	CodeNotCompactable     = "not_compactable"
	CodeLogCompacted       = "log_compacted"
	CodeTooManyRejections  = "too_many_rejected"
	CodeVersionAhead       = "version_ahead"
	CodeReleaseNotFound    = "release_not_found"
	CodeArtifactNotFound   = "artifact_not_found"
	CodeArtifactTooLarge   = "artifact_too_large" // of a line of a release
	CodeInternal           = "internal"

	CodeInvalidRego      = "invalid_rego"
	CodeTestsFailed      = "tests_failed"
	CodeTooManyPolicies  = "too_many_policies"
	CodeImmutableField   = "immutable_field"
	CodeRejected         = "rejected_by_policy"
	CodePolicyConflict   = "policy_conflict_error"
	CodePolicyFailed     = "policy_failed"
	CodePolicyTimeout    = "policy_timeout"
	CodeInvalidPayload   = "invalid_payload"
	CodeInvalidPatched   = "invalid_after_patch"
	CodeTooManyAtOnce    = "too_many_at_once"
	CodeInvalidTestCases = "invalid_test_cases"
)

// retryAfter is what a 503 advises, in seconds.
const retryAfter = "1"

// roomAfter is what a 429 advises, in seconds, where no time makes room, but somebody who
// removes what there is too much of.
const roomAfter = "60"

// retryIn advises to wait so long, in whole seconds.
func (c *call) retryIn(wait time.Duration) {
	c.w.Header().Set("Retry-After", strconv.Itoa(1+int(wait/time.Second)))
}

// problem makes the error that handlers return.
func problem(status int, code, format string, args ...any) *resource.Problem {
	return resource.NewProblem(status, code, format, args...)
}

// invalid turns what a strict reader found into a problem: 400 for the first
// fault of shape, else 422 for the first broken rule, with all of them listed.
func invalid(err error) error {
	var faults policy.Violations
	if !errors.As(err, &faults) || len(faults) == 0 {
		return problem(http.StatusBadRequest, policy.CodeMalformedJSON, "%v", err)
	}
	status, first := http.StatusUnprocessableEntity, faults[0]
	if shape, ok := faults.Shape(); ok {
		status, first = http.StatusBadRequest, shape
	}
	p := problem(status, first.Code, "%s: %s", at(first.Pointer), first.Detail)
	p.Errors = faultsOf(faults)
	return p
}

func at(pointer string) string {
	if pointer == "" {
		return "the document"
	}
	return pointer
}

func faultsOf(faults []policy.Violation) []resource.Fault {
	out := make([]resource.Fault, 0, len(faults))
	for _, f := range faults {
		out = append(out, resource.Fault(f))
	}
	return out
}

// broken is a problem with one fault, of a parameter or a path segment.
func broken(status int, code, pointer, format string, args ...any) *resource.Problem {
	p := problem(status, code, format, args...)
	p.Errors = []resource.Fault{{Pointer: pointer, Code: code, Detail: p.Detail}}
	return p
}

// refused is the fold's verdict against a write: 422 when the event broke a
// rule of the domain, else a conflict with what the log already holds.
func refused(r *streams.Rejection) *resource.Problem {
	status := http.StatusConflict
	switch r.Code {
	case policy.Invalid, policy.Undecodable, policy.UnknownType:
		status = http.StatusUnprocessableEntity
	case projector.CodeQuotaExceeded:
		status = http.StatusTooManyRequests
	}
	p := problem(status, r.Code, "%s", r.Detail)
	if len(r.Violations) > 0 {
		p.Code = r.Violations[0].Code
		p.Errors = faultsOf(r.Violations)
	}
	return p
}

// behind is a read model that did not reach seq in time.
func behind(seq, applied uint64) *resource.Problem {
	p := problem(http.StatusServiceUnavailable, CodeProjectionBehind,
		"this worker has folded the log up to %d, not yet up to %d; try again", applied, seq)
	p.Sequence = seq
	return p
}

// atFault says what went wrong in a request and is ours to mend.
func (p *pipeline) atFault(c *call, err error) {
	c.log(p.log).Error("request failed", "method", c.r.Method, "route", c.route.Pattern, "correlation_id", c.correlation, "error", err.Error())
}

// writeProblem answers with err, in the form of the surface. What is no problem yet is a fault of ours and
// tells the client nothing but where to look.
func (p *pipeline) writeProblem(c *call, s surface, err error) {
	var pr *resource.Problem
	if !errors.As(err, &pr) {
		p.atFault(c, err)
		pr = problem(http.StatusInternalServerError, CodeInternal,
			"the plane failed to answer; its log has the reason under this correlation id")
	}
	out := *pr // a problem may be shared between requests
	out.Instance = c.r.URL.EscapedPath()
	out.CorrelationID = c.correlation
	h := c.w.Header()
	h.Del("ETag")
	h.Del("Location")
	h.Del(headerWarning)
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if out.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter)
	} else if out.Status == http.StatusTooManyRequests && h.Get("Retry-After") == "" {
		h.Set("Retry-After", roomAfter)
	}
	var document any = &out
	if s.errors != nil {
		e := s.errors(err, &out)
		document, out.Status = e, e.Status
	}
	body, bad := json.Marshal(document)
	if bad != nil { // strings and numbers alone: cannot happen
		c.log(p.log).Error("a problem could not be encoded", "error", bad)
	}
	c.w.WriteHeader(out.Status)
	_, _ = c.w.Write(append(body, '\n')) // the client may be gone
}

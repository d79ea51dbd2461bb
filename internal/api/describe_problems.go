package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const mediaProblem = "application/problem+json"

// problems are the codes a route may answer with, by status: those it names
// and those that follow from its form.
func (d *describer) problems(r Route) map[int][]string {
	by := map[int][]string{}
	for _, code := range slices.Concat([]string{CodeBadHeader, CodeUnknownParameter, CodeInternal}, r.Problems, accessProblems(r), formProblems(r)) {
		m, known := d.meanings[code]
		if !known {
			panic(fmt.Sprintf("api: code %q of route %s has no meaning", code, r.ID))
		}
		if !slices.Contains(by[m.status], code) {
			by[m.status] = append(by[m.status], code)
		}
	}
	for _, codes := range by {
		slices.Sort(codes)
	}
	return by
}

// formProblems follow from a route's path and its parameters.
func formProblems(r Route) (codes []string) {
	for _, name := range pathNames(r.Pattern) {
		switch name {
		case "node":
			codes = append(codes, policy.CodeInvalidNodeID)
		case "principal":
			codes = append(codes, policy.CodeInvalidPrincipalID)
		case "admission", "key", "seq", "profile":
		case "kind", "name":
			codes = append(codes, policy.CodeInvalidArtifactName)
		default:
			codes = append(codes, policy.CodeInvalidUUID)
		}
	}
	for _, p := range r.Params {
		if p.Schema.Type == "integer" || p.Schema.Type == "boolean" || p.Schema.Format == "date-time" {
			codes = append(codes, CodeBadParameter)
		}
	}
	return codes
}

// commonProblems are the codes that many routes may answer with; they are described once.
func commonProblems() []string {
	return []string{
		CodeBadHeader, CodeUnknownParameter, policy.CodeMalformedJSON, policy.CodeDuplicateKey, policy.CodeUnknownField, CodeBadParameter,
		CodeUnauthenticated, CodeIssuerUnavailable, CodeForbidden, CodeBodyTooLarge, CodeUnsupportedMedia, policy.CodeInvalidUUID, policy.CodeInvalidNodeID,
		CodeProjectNotFound, CodeTooManyRequests, CodeTooManyFailures, CodeProjectOverShare, projector.CodeQuotaExceeded, projector.CodeProjectArchived, CodeStarting, CodeInternal, CodeProjectionBehind, CodeLogUnavailable, CodeStorageLow,
	}
}

// about says what a route asks for, and which problems it answers with: the statuses
// that are not usual, and the codes that are not common.
func (d *describer) about(s surface, r Route) string {
	var b strings.Builder
	if r.Needs == access.Anyone {
		b.WriteString("Open to all.")
	} else {
		fmt.Fprintf(&b, "Asks for %s.", r.Needs)
	}
	var problems []string
	if s.errors != nil {
		for _, status := range d.alphaStatuses(r) {
			if !r.usual(status) {
				problems = append(problems, fmt.Sprint(status))
			}
		}
		slices.Sort(problems)
	} else {
		all := d.problems(r)
		for _, status := range slices.Sorted(maps.Keys(all)) {
			codes := slices.DeleteFunc(all[status], func(code string) bool { return slices.Contains(commonProblems(), code) })
			if len(codes) > 0 || !r.usual(status) {
				problems = append(problems, strings.Join(append([]string{fmt.Sprint(status)}, quoted(codes)...), " "))
			}
		}
	}
	if len(problems) > 0 {
		fmt.Fprintf(&b, " Problems: %s.", strings.Join(problems, ", "))
	}
	return b.String()
}

// usual reports whether a status is one that is said once, of all operations, or of all
// that are not open to all.
func (r Route) usual(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusInternalServerError:
		return true
	case http.StatusUnauthorized, http.StatusTooManyRequests:
		return r.Needs != access.Anyone
	}
	return false
}

// quoted are codes as a text has them.
func quoted(codes []string) []string {
	out := make([]string, len(codes))
	for i, code := range codes {
		out[i] = "`" + code + "`"
	}
	return out
}

// faults has an operation refer to what it answers when it fails: one document of every
// status.
func (d *describer) faults(s surface, op *openapi.Operation) {
	name, document, common := "Problem", any(resource.Problem{}), commonProblems()
	if s.errors != nil { // whose problems have no code
		name, document, common = "AlphaProblem", resource.AlphaError{}, nil
	}
	var b strings.Builder
	b.WriteString("A problem. Any operation may be 400 and 500, and one that is not open to all 401 and 429. Its description has its other statuses, and the codes beside these. Retry-After comes with 429 and 503.\n")
	for _, code := range common {
		fmt.Fprintf(&b, "\n- %d `%s`: %s", d.meanings[code].status, code, d.meanings[code].text)
	}
	headers := d.headers(nil)
	headers["Retry-After"] = d.shared.Header("Retry-After", openapi.Header{
		Description: "Seconds to wait before trying again.", Schema: &schema{Type: "integer", Minimum: openapi.N(0)},
	})
	response := d.shared.Response(name, openapi.Response{
		Description: b.String(), Headers: headers,
		Content: map[string]openapi.Media{mediaProblem: {Schema: d.types.Of(document)}},
	})
	op.Responses["4XX"], op.Responses["5XX"] = response, response
}

// alphaStatuses are those of the errors that a v1alpha1 route may answer with.
func (d *describer) alphaStatuses(r Route) []int {
	statuses := []int{http.StatusBadRequest, http.StatusInternalServerError}
	if r.Body != nil {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	switch {
	case r.ID == "alphaEvaluateRequest":
		statuses = append(statuses, http.StatusNotAcceptable, http.StatusConflict, http.StatusServiceUnavailable)
	case r.Method != http.MethodGet:
		if r.Pattern == patternAlpha {
			statuses = append(statuses, http.StatusNotFound, http.StatusPreconditionFailed)
		}
		statuses = append(statuses, http.StatusConflict, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	case r.Pattern == patternAlpha:
		statuses = append(statuses, http.StatusNotFound, http.StatusServiceUnavailable)
	}
	for _, m := range accessProblems(r) {
		if status := d.meanings[m].status; !slices.Contains(statuses, status) {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

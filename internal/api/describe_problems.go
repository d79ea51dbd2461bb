package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api/openapi"
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
		case "admission", "key", "seq":
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

func (d *describer) problem(status int, codes []string) openapi.Response {
	var headers []string
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		headers = append(headers, "Retry-After")
	}
	var b strings.Builder
	b.WriteString(http.StatusText(status))
	for _, code := range codes {
		fmt.Fprintf(&b, "\n- `%s`: %s", code, d.meanings[code].text)
	}
	return openapi.Response{
		Description: b.String(), Headers: d.headers(headers),
		Content: map[string]openapi.Media{mediaProblem: {Schema: &schema{AllOf: []*schema{
			d.types.Of(resource.Problem{}),
			{Properties: openapi.Properties{
				{Name: "status", Schema: &schema{Const: status}},
				{Name: "code", Schema: &schema{Enum: openapi.OneOfTexts(codes...)}},
			}},
		}}}},
	}
}

// alphaFaults describes the errors of a v1alpha1 route: one form for every
// status.
func (d *describer) alphaFaults(op *openapi.Operation, r Route) {
	for _, status := range d.alphaStatuses(r) {
		var headers []string
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			headers = append(headers, "Retry-After")
		}
		op.Responses[strconv.Itoa(status)] = openapi.Response{
			Description: http.StatusText(status), Headers: d.headers(headers),
			Content: map[string]openapi.Media{mediaProblem: {Schema: &schema{AllOf: []*schema{
				d.types.Of(resource.AlphaError{}),
				{Properties: openapi.Properties{{Name: "status", Schema: &schema{Const: status}}}},
			}}}},
		}
	}
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

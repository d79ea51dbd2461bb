package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// The v1alpha1 surface is what existing clients speak: their fields, their
// limits, their codes, their form of an error. It knows the levels GLOBAL and
// USER.
const (
	patternAlphas        = "/api/v1alpha1/policies"
	patternAlpha         = "/api/v1alpha1/policies/{admission}"
	patternAlphaEvaluate = "/api/v1alpha1/policies:evaluateRequest"
	patternAlphaHealth   = "/api/v1alpha1/health"
	mediaMergePatch      = "application/merge-patch+json"
)

// alphaHandlers serve admission policies to clients of v1alpha1.
type alphaHandlers struct {
	model    views
	writes   *writes
	policies *admissionPolicies
}

func (h *alphaHandlers) routes() []Route {
	show := jsonAnswer(http.StatusOK, resource.AlphaPolicy{})
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternAlphas, ID: "alphaCreatePolicy", Tag: tagAlpha, Needs: access.AdminPlane,
			Summary: "Create a policy",
			Params: writeParams(dryRunParam, Param{
				Name: "id", In: "query", Summary: "Its id; a UUID when absent.", Schema: &openapi.Schema{Type: "string"},
			}),
			BodyType: mediaJSON, Body: resource.AlphaPolicy{},
			Answers: []Answer{
				{Status: http.StatusCreated, MediaType: mediaJSON, Body: resource.AlphaPolicy{}, Headers: []string{"Location"}},
				{Status: http.StatusOK, MediaType: mediaJSON, Body: resource.AlphaPolicy{}},
			},
			fault: alphaFault, serve: h.create,
		},
		{
			Method: http.MethodGet, Pattern: patternAlphas, ID: "alphaListPolicies", Tag: tagAlpha, Needs: access.ReadPlane,
			Summary: "List policies",
			Params: []Param{
				queryText("filter", "policy_type = 'GLOBAL' or 'USER', enabled = true or false, or both joined by AND."),
				queryText("order_by", "priority, display_name and create_time, each with asc or desc, joined by commas."),
				queryText("page_token", "next_page_token of the page before."),
				{
					Name: "max_page_size", In: "query", Summary: "Policies a page.",
					Schema: &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Maximum: openapi.N(alphaMaxPage), Default: alphaPage},
				},
			},
			Answers: jsonAnswer(http.StatusOK, resource.AlphaPolicies{}), fault: alphaFault, serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternAlpha, ID: "alphaGetPolicy", Tag: tagAlpha, Needs: access.ReadPlane,
			Summary: "Read a policy", Answers: show, fault: alphaFault, serve: h.get,
		},
		{
			Method: http.MethodPatch, Pattern: patternAlpha, ID: "alphaUpdatePolicy", Tag: tagAlpha, Needs: access.AdminPlane,
			Summary: "Change a policy by a merge patch (RFC 7396)",
			Params:  writeParams(dryRunParam, ifMatchParam), BodyType: mediaMergePatch, Body: resource.AlphaPolicy{},
			Answers: show, fault: alphaFault, serve: h.update,
		},
		{
			Method: http.MethodDelete, Pattern: patternAlpha, ID: "alphaDeletePolicy", Tag: tagAlpha, Needs: access.AdminPlane,
			Summary: "Delete a policy", Params: writeParams(ifMatchParam), Answers: noContent(), fault: alphaFault, serve: h.delete,
		},
		{
			Method: http.MethodPost, Pattern: patternAlphaEvaluate, ID: "alphaEvaluateRequest", Tag: tagAlpha, Needs: access.Evaluate,
			Summary: "Run a service instance through the policies that match it", Params: []Param{explainParam},
			BodyType: mediaJSON, Body: resource.AlphaEvaluation{}, Answers: jsonAnswer(http.StatusOK, resource.AlphaAdmitted{}),
			fault: alphaEngineFault, serve: h.evaluate,
		},
		{
			Method: http.MethodGet, Pattern: patternAlphaHealth, ID: "alphaHealth", Tag: tagAlpha, Needs: access.Anyone, early: true,
			Summary: "Say that the API answers", Answers: jsonAnswer(http.StatusOK, resource.AlphaHealth{}), fault: alphaFault,
			serve: func(c *call) error {
				return c.json(http.StatusOK, resource.AlphaHealth{Status: "ok", Path: "health"})
			},
		},
	}
}

const tagAlpha = "admission v1alpha1"

var alphaID = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// The limits of the surface, stricter than the log's.
const (
	alphaMinPriority = 1
	alphaMaxPriority = 1000
)

func alphaInvalid(format string, args ...any) error {
	return problem(http.StatusBadRequest, policy.CodeMissing, format, args...)
}

// alphaFields are a body of the surface: members that are absent or null are
// nil. Members it does not know are ignored.
type alphaFields struct {
	Path, ID    *string
	DisplayName *string            `json:"display_name"`
	Description *string            `json:"description"`
	PolicyType  *string            `json:"policy_type"`
	Labels      *map[string]string `json:"label_selector"`
	Priority    *json.Number       `json:"priority"`
	RegoCode    *string            `json:"rego_code"`
	Enabled     *bool              `json:"enabled"`
	CreateTime  *string            `json:"create_time"`
	UpdateTime  *string            `json:"update_time"`
	cleared     map[string]bool    // members that are null
}

func readAlpha(body []byte) (f alphaFields, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if err := decodeOne(d, &f); err != nil {
		return f, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return f, problem(http.StatusBadRequest, policy.CodeWrongType, "the body must be a JSON object")
	}
	f.cleared = map[string]bool{}
	for name, raw := range members {
		f.cleared[name] = string(bytes.TrimSpace(raw)) == "null"
	}
	return f, nil
}

// apply sets in d what the fields give.
func (f alphaFields) apply(d *policy.AdmissionPolicy) error {
	switch {
	case f.DisplayName != nil:
		d.Name = *f.DisplayName
	}
	if f.Description != nil || f.cleared["description"] {
		d.Description = deref(f.Description)
	}
	if f.Labels != nil || f.cleared["label_selector"] {
		d.ServiceType, d.Labels = "", deref(f.Labels) // the service type is one of the labels here
	}
	if f.RegoCode != nil {
		d.Rego = *f.RegoCode
	}
	if f.Enabled != nil {
		d.Disabled = !*f.Enabled
	}
	if f.Priority != nil {
		n, err := f.Priority.Int64()
		if err != nil || n < alphaMinPriority || n > alphaMaxPriority {
			return alphaInvalid("priority is a whole number from %d to %d, not %s", alphaMinPriority, alphaMaxPriority, *f.Priority)
		}
		d.Priority = int32(n)
	}
	switch {
	case strings.TrimSpace(d.Name) == "":
		return alphaInvalid("display_name is required")
	case strings.TrimSpace(d.Rego) == "":
		return alphaInvalid("rego_code is required")
	}
	// What the log demands is the same for every surface.
	if _, err := policy.DecodeAdmissionPolicy(policy.AppendAdmissionPolicy(nil, *d)); err != nil {
		return invalid(err)
	}
	return nil
}

func deref[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

func (h *alphaHandlers) create(c *call) error {
	f, err := c.alphaBody()
	if err != nil {
		return err
	}
	id := policy.AdmissionPolicyID(c.r.URL.Query().Get("id"))
	if id == "" {
		made, err := h.writes.id(c, uuid.Nil, "create:admission policy")
		if err != nil {
			return err
		}
		id = policy.AdmissionPolicyID(made.String())
	} else if !alphaID.MatchString(string(id)) {
		return alphaInvalid("id %q: want 1 to 63 of a-z, 0-9 and '-', the first a letter, the last no '-'", id)
	}
	d := policy.AdmissionPolicy{Priority: policy.DefaultAdmissionPriority, Mode: policy.Enforce}
	level, ok := alphaLevels[deref(f.PolicyType)]
	if !ok {
		return alphaInvalid("policy_type is GLOBAL or USER, not %q", deref(f.PolicyType))
	}
	d.Level = level
	if err := f.apply(&d); err != nil {
		return err
	}
	stored, err := h.policies.write(c, admissionWrite{id: id, document: d, expected: new(uint64), role: "create:admission event"})
	if err != nil {
		return err
	}
	if stored.Version == 0 {
		return c.json(http.StatusOK, showAlpha(stored))
	}
	c.w.Header().Set("Location", patternAlphas+"/"+string(id))
	return c.json(http.StatusCreated, showAlpha(stored))
}

// alphaBody reads the body, whichever of the surface's media types it has.
func (c *call) alphaBody() (alphaFields, error) {
	if media, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";"); strings.TrimSpace(media) == mediaMergePatch {
		c.r.Header.Set("Content-Type", mediaJSON)
	}
	body, err := c.document()
	if err != nil {
		return alphaFields{}, err
	}
	return readAlpha(body)
}

// read finds the policy of the path, if the surface knows its level.
func (h *alphaHandlers) read(c *call) (projector.AdmissionPolicy, error) {
	stored, err := h.policies.read(c)
	if err == nil && !alphaShows(stored) {
		err = admissionNotFound(stored.ID)
	}
	return stored, err
}

func (h *alphaHandlers) get(c *call) error {
	stored, err := h.read(c)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, showAlpha(stored))
}

func (h *alphaHandlers) update(c *call) error {
	f, err := c.alphaBody()
	if err != nil {
		return err
	}
	stored, err := h.read(c)
	if err != nil {
		return err
	}
	was := showAlpha(stored)
	for _, same := range [...]struct {
		field string
		given *string
		is    any
	}{
		{"path", f.Path, was.Path},
		{"id", f.ID, was.ID},
		{"policy_type", f.PolicyType, was.PolicyType},
		{"create_time", f.CreateTime, was.CreateTime},
		{"update_time", f.UpdateTime, was.UpdateTime},
	} {
		if same.given == nil {
			continue
		}
		is, _ := json.Marshal(same.is) // of a string or a time
		if string(is) != `"`+*same.given+`"` {
			return alphaInvalid("%s is %s and never changes", same.field, is)
		}
	}
	if stored, err = h.policies.change(c, f.apply); err != nil {
		return err
	}
	return c.json(http.StatusOK, showAlpha(stored))
}

func (h *alphaHandlers) delete(c *call) error {
	if _, err := h.read(c); err != nil && c.key == "" {
		return err
	}
	return h.policies.delete(c)
}

func (h *alphaHandlers) evaluate(c *call) error {
	body, err := c.document()
	if err != nil {
		return err
	}
	var in resource.AlphaEvaluation
	if err := decodeOne(json.NewDecoder(bytes.NewReader(body)), &in); err != nil {
		return err
	}
	spec, err := specOf(in.ServiceInstance.Spec)
	if err != nil {
		return err
	}
	service, ok := admission.ServiceTypeOf(spec)
	if !ok {
		return alphaInvalid("service type is required")
	}
	result, explain, err := h.policies.judge(c, inAlphaEvaluation, admission.Request{ServiceType: service, Labels: admission.LabelsOf(spec), Payload: spec})
	if err != nil {
		return err
	}
	out := resource.AlphaAdmitted{SelectedProvider: result.ServiceProvider.Value, Status: string(result.Status), Explain: explain}
	if out.EvaluatedServiceInstance.Spec, err = json.Marshal(result.Payload); err != nil {
		return fmt.Errorf("encode the payload: %w", err)
	}
	return c.json(http.StatusOK, out)
}

var alphaLevels = map[string]policy.Level{"GLOBAL": policy.Global, "USER": policy.User}

// alphaShows reports whether the surface knows the policy's level.
func alphaShows(x projector.AdmissionPolicy) bool { return x.Document.Level != policy.Tenant }

func showAlpha(x projector.AdmissionPolicy) resource.AlphaPolicy {
	d := x.Document
	out := resource.AlphaPolicy{
		Path: "policies/" + string(x.ID), ID: string(x.ID), DisplayName: d.Name, Description: d.Description,
		PolicyType: strings.ToUpper(string(d.Level)), LabelSelector: d.Labels, Priority: int(d.Priority), RegoCode: d.Rego,
		Enabled: !d.Disabled, CreateTime: x.CreatedAt, UpdateTime: x.UpdatedAt,
	}
	if d.ServiceType != "" {
		out.LabelSelector = map[string]string{}
		for k, v := range d.Labels {
			out.LabelSelector[k] = v
		}
		out.LabelSelector[admission.ServiceTypeLabel] = d.ServiceType
	}
	return out
}

// alphaFault is the surface's form of an error of managing policies.
func alphaFault(pr *resource.Problem) resource.AlphaError {
	out := resource.AlphaError{Status: pr.Status, Detail: pr.Detail}
	switch {
	case pr.Status == http.StatusUnprocessableEntity || pr.Status == http.StatusBadRequest:
		out.Type, out.Status, out.Title = "INVALID_ARGUMENT", http.StatusBadRequest, "Invalid argument"
	case pr.Status == http.StatusNotFound:
		out.Type, out.Title = "NOT_FOUND", "Not found"
	case pr.Code == projector.CodeRevisionConflict:
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
	switch pr.Code {
	case projector.CodeNameTaken:
		out.Detail = "a policy with this display name and policy type exists: " + pr.Detail
	case projector.CodePriorityTaken:
		out.Detail = "a policy with this priority and policy type exists: " + pr.Detail
	case CodeInvalidRego:
		var lines []string
		for _, f := range pr.Errors {
			lines = append(lines, f.Detail+" ("+f.Code+")")
		}
		out.Detail = "rego_code does not compile: " + strings.Join(lines, "; ")
	}
	return out
}

// alphaEngineFault is the surface's form of an error of an evaluation.
func alphaEngineFault(pr *resource.Problem) resource.AlphaError {
	out := resource.AlphaError{Type: "about:blank", Status: pr.Status, Title: http.StatusText(pr.Status), Detail: pr.Detail, Explain: pr.Explain}
	if pr.Status == http.StatusUnprocessableEntity {
		out.Status, out.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
	}
	switch pr.Code {
	case CodeRejected:
		out.Status, out.Title = http.StatusNotAcceptable, fmt.Sprintf("Request rejected by policy '%s'", pr.Policy.ID)
	case CodePolicyConflict:
		out.Title = pr.Title
	case CodePolicyFailed, CodePolicyTimeout:
		out.Title = "Policy evaluation failed"
	}
	return out
}

// alphaCause gives the words that the surface's clients know: the bare reasons.
func alphaCause(err error, pr *resource.Problem) {
	var (
		rejection *admission.Rejection
		conflict  *admission.Conflict
	)
	switch {
	case errors.As(err, &rejection):
		pr.Detail = rejection.Reason
	case errors.As(err, &conflict):
		pr.Title = fmt.Sprintf("Policy '%s' conflicts with a constraint", conflict.PolicyID)
		if len(conflict.Violations) > 0 {
			pr.Title = fmt.Sprintf("Policy '%s' conflicts on field '%s'", conflict.PolicyID, conflict.Violations[0].Path)
		}
		var reasons []string
		for _, v := range conflict.Violations {
			reasons = append(reasons, fmt.Sprintf("%s (set by policy '%s')", v, v.PolicyID))
		}
		pr.Detail = strings.Join(reasons, "; ")
	}
}

func encodeToken(v any) (string, error) {
	b, err := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(b), err
}

// specOf reads a member that must be there and an object.
func specOf(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, alphaInvalid("service_instance.spec is required")
	}
	spec, err := admission.ParsePayload(raw)
	if err != nil {
		return nil, problem(http.StatusBadRequest, policy.CodeWrongType, "service_instance.spec: want an object: %v", err)
	}
	return spec, nil
}

package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	patternAdmissions = "/api/v1/policies"
	patternAdmission  = "/api/v1/policies/{admission}"
	patternEvaluate   = "/api/v1/engine/evaluate"
	cursorAdmissions  = "a"
	headerIfMatch     = "If-Match"
	headerIfNoneMatch = "If-None-Match"
)

var explainParam = Param{
	Name: "explain", In: "query", Summary: "full: say what each policy did.",
	Schema: &openapi.Schema{Type: "string", Enum: []any{"full"}},
}

// draftFaults are what an admission policy may break.
func draftFaults(more ...string) []string {
	return append(more, policy.CodeMissing, policy.CodeInvalidDisplayName, policy.CodeUnknownLevel, policy.CodeUnknownMode, policy.CodeInvalidPriority, policy.CodeOwnerForbidden,
		policy.CodeControlCharacter, policy.CodeTextTooLong, policy.CodeTooManyLabels, policy.CodeTooManyTestCases,
		CodeInvalidRego, CodeInvalidTestCases, CodeTestsFailed, CodeTooManyAtOnce, projector.CodeNameTaken, projector.CodePriorityTaken)
}

// admissionHandlers serve admission policies.
type admissionHandlers struct{ policies *admissionPolicies }

func (h *admissionHandlers) routes() []Route {
	return slices.Concat(h.createRoutes(), h.readRoutes(), h.changeRoutes(), h.engineRoutes())
}

func (h *admissionHandlers) createRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternAdmissions, ID: "createAdmissionPolicy", Tag: "admission", Needs: access.AuthorAdmission,
			Summary:  "Register an admission policy",
			Params:   writeParams(),
			BodyType: mediaJSON, Body: resource.AdmissionDraft{},
			Answers:  createdAnswer(resource.AdmissionID{}, headerWarning),
			Problems: writeProblems(bodyProblems(draftFaults(CodeTooManyPolicies, projector.CodePolicyIDUsed, projector.CodeStaleEvent, CodeKeyReused)...)...),
			serve:    h.create,
		},
	}
}

func (h *admissionHandlers) readRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.AdmissionPolicy{}, "ETag", headerWarning)
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternAdmissions, ID: "listAdmissionPolicies", Tag: "admission", Needs: access.SeeAdmission,
			Summary: "List admission policies by id",
			Params: []Param{
				limitParam, cursorParam, queryText("policy_type", "Only those of this level."), queryText("tenant_id", "Only those of this tenant."),
				queryText("user_id", "Only those of this user."), queryText("service_type", "Only those for this service type."), queryText("name", "Only those of this name."),
			},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.AdmissionPolicy]{}), Problems: []string{CodeBadCursor, policy.CodeUnknownLevel},
			serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternAdmission, ID: "getAdmissionPolicy", Tag: "admission", Needs: access.SeeAdmission,
			Summary: "Read an admission policy",
			Answers: show, Problems: readProblems(CodePolicyNotFound), serve: h.get,
		},
	}
}

func (h *admissionHandlers) changeRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.AdmissionPolicy{}, "ETag", headerWarning)
	return []Route{
		{
			Method: http.MethodPut, Pattern: patternAdmission, ID: "replaceAdmissionPolicy", Tag: "admission", Needs: access.AuthorAdmission,
			Summary:  "Replace an admission policy: what is absent has its default; its name, level and owner never change, and may be absent. What GET shows can be sent",
			Params:   writeParams(onlyIfMatchParam),
			BodyType: mediaJSON, Body: resource.AdmissionChange{}, Answers: show,
			Problems: writeProblems(bodyProblems(draftFaults(CodePolicyNotFound, CodeImmutableField, CodeBadHeader, CodePreconditionFailed, CodeContended, projector.CodeStaleEvent, CodeKeyReused)...)...),
			serve:    h.replace,
		},
		{
			Method: http.MethodDelete, Pattern: patternAdmission, ID: "deleteAdmissionPolicy", Tag: "admission", Needs: access.AuthorAdmission,
			Summary: "Delete an admission policy; its id, name and priority are free again",
			Params:  writeParams(onlyIfMatchParam), Answers: noContent(),
			Problems: writeProblems(CodePolicyNotFound, CodeBadHeader, CodePreconditionFailed, projector.CodeStaleEvent), serve: h.delete,
		},
	}
}

func (h *admissionHandlers) engineRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternEvaluate, ID: "evaluate", Tag: "admission", Needs: access.Evaluate,
			Summary:  "Run a request through the admission policies that match it",
			Params:   []Param{explainParam},
			BodyType: mediaJSON, Body: resource.Evaluation{}, Answers: jsonAnswer(http.StatusOK, resource.Admitted{}),
			Problems: bodyProblems(policy.CodeMissing, policy.CodeTextTooLong, policy.CodeControlCharacter, CodeInvalidPayload, CodeRejected, CodePolicyConflict, CodePolicyFailed, CodePolicyTimeout, CodeTooManyAtOnce),
			serve:    h.evaluate,
		},
	}
}

func (h *admissionHandlers) create(c *call) error {
	d, err := decoded(c, policy.DecodeAdmissionPolicy)
	if err != nil {
		return err
	}
	id, err := h.policies.newID(c)
	if err != nil {
		return err
	}
	stored, err := h.policies.create(c, id, d)
	if err != nil {
		return err
	}
	if stored.Version == 0 { // a dry run
		return c.json(http.StatusOK, resource.AdmissionID{ID: string(id), Warnings: h.policies.warned(c, stored)})
	}
	c.w.Header().Set("Location", patternAdmissions+"/"+string(id))
	return c.json(http.StatusCreated, resource.AdmissionID{ID: string(id), Warnings: h.policies.warned(c, stored)})
}

func (h *admissionHandlers) get(c *call) error {
	stored, err := h.policies.read(c)
	if err != nil {
		return err
	}
	return h.answer(c, stored)
}

func (h *admissionHandlers) answer(c *call, stored projector.AdmissionPolicy) error {
	c.w.Header().Set("ETag", versionTag(stored.Version))
	out := showAdmission(stored)
	out.Warnings = h.policies.warned(c, stored)
	return c.json(http.StatusOK, out)
}

func (h *admissionHandlers) replace(c *call) error {
	body, err := c.document()
	if err != nil {
		return err
	}
	stored, err := h.policies.change(c, func(d *policy.AdmissionPolicy) error {
		next, id, err := policy.DecodeAdmissionChange(body, *d)
		if err != nil {
			return invalid(err)
		}
		if is := c.r.PathValue("admission"); id != "" && id != is {
			return broken(http.StatusUnprocessableEntity, CodeImmutableField, "/id", "the policy is %s, not %s", is, id)
		}
		if err := checkImmutable(*d, next); err != nil {
			return err
		}
		*d = next
		return nil
	})
	if err != nil {
		return err
	}
	return h.answer(c, stored)
}

// checkImmutable refuses a change of what never changes.
func checkImmutable(was, is policy.AdmissionPolicy) error {
	for _, f := range [...]struct{ field, was, is string }{
		{"name", was.Name, is.Name},
		{"policy_type", string(was.Level), string(is.Level)},
		{"tenant_id", was.Tenant, is.Tenant},
		{"user_id", was.User, is.User},
	} {
		if f.was != f.is {
			return broken(http.StatusUnprocessableEntity, CodeImmutableField, "/"+f.field, "%s is %q and never changes; leave it out, or make another policy", f.field, f.was)
		}
	}
	return nil
}

func (h *admissionHandlers) delete(c *call) error { return h.policies.delete(c) }

func (h *admissionHandlers) list(c *call) error {
	limit, above, err := c.pageOf(cursorAdmissions)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	var level policy.Level
	if text := q.Get("policy_type"); text != "" {
		var ok bool
		if level, ok = policy.ParseLevel(text); !ok {
			return broken(http.StatusUnprocessableEntity, policy.CodeUnknownLevel, "/policy_type", "%q is no level; use Global, Tenant or User", text)
		}
	}
	items := h.policies.list(c, func(x projector.AdmissionPolicy) bool {
		d := x.Document
		return string(x.ID) > above && (level == "" || d.Level == level) && asked(q["tenant_id"], d.Tenant) &&
			asked(q["user_id"], d.User) && asked(q["service_type"], d.ServiceType) && asked(q["name"], d.Name)
	})
	items = items[:min(len(items), limit+1)]
	end := func(x projector.AdmissionPolicy) string { return string(x.ID) }
	warnings := h.policies.warnings(c)
	return c.json(http.StatusOK, cut(items, limit, cursorAdmissions, end, func(x projector.AdmissionPolicy) resource.AdmissionPolicy {
		out := showAdmission(x)
		out.Warnings = warnings(x)
		return out
	}))
}

// asked reports whether a filter lets a value pass; no filter does.
func asked(filter []string, value string) bool { return len(filter) == 0 || filter[0] == value }

func showAdmission(x projector.AdmissionPolicy) resource.AdmissionPolicy {
	d := x.Document
	out := resource.AdmissionPolicy{
		ID: string(x.ID), Name: d.Name, Description: d.Description, PolicyType: string(d.Level), TenantID: d.Tenant, UserID: d.User,
		ServiceType: d.ServiceType, LabelSelector: d.Labels, Priority: int(d.Priority), Enabled: !d.Disabled, Mode: string(d.Mode), RegoCode: d.Rego,
		Version: x.Version, CreatedAt: x.CreatedAt, UpdatedAt: x.UpdatedAt, CreatedBy: x.CreatedBy,
	}
	for _, t := range d.TestCases {
		out.TestCases = append(out.TestCases, json.RawMessage(t))
	}
	return out
}

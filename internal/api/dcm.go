package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/dcm"
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

// dcmHandlers serve admission policies to clients of v1alpha1.
type dcmHandlers struct{ policies *admissionPolicies }

func (h *dcmHandlers) routes() []Route {
	return slices.Concat(h.createRoutes(), h.readRoutes(), h.changeRoutes())
}

func (h *dcmHandlers) createRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternAlphas, ID: "alphaCreatePolicy", Tag: tagAlpha, Needs: access.AdminPlane,
			Summary:  "Create a policy",
			Params:   writeParams(queryText("id", "Its id; a UUID when absent.")),
			BodyType: mediaJSON, Body: resource.AlphaPolicy{},
			Answers: createdAnswer(resource.AlphaPolicy{}),
			serve:   h.create,
		},
	}
}

func (h *dcmHandlers) readRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.AlphaPolicy{})
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternAlphas, ID: "alphaListPolicies", Tag: tagAlpha, Needs: access.ReadPlane,
			Summary: "List policies",
			Params: []Param{
				queryText("filter", "policy_type = 'GLOBAL' or 'USER', enabled = true or false, or both joined by AND."),
				queryText("order_by", "priority, display_name and create_time, each with asc or desc, joined by commas."),
				queryText("page_token", "next_page_token of the page before."),
				{
					Name: "max_page_size", In: "query", Summary: "Policies a page.",
					Schema: &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Maximum: openapi.N(dcm.MaxPage), Default: dcm.DefaultPage},
				},
			},
			Answers: jsonAnswer(http.StatusOK, resource.AlphaPolicies{}), serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternAlpha, ID: "alphaGetPolicy", Tag: tagAlpha, Needs: access.ReadPlane,
			Summary: "Read a policy", Answers: show, serve: h.get,
		},
	}
}

func (h *dcmHandlers) changeRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.AlphaPolicy{})
	return []Route{
		{
			Method: http.MethodPatch, Pattern: patternAlpha, ID: "alphaUpdatePolicy", Tag: tagAlpha, Needs: access.AdminPlane,
			Summary: "Change a policy by a merge patch (RFC 7396), but for label_selector, which is replaced whole",
			Params:  writeParams(onlyIfMatchParam), BodyType: mediaMergePatch, Body: resource.AlphaPolicy{},
			Answers: show, serve: h.update,
		},
		{
			Method: http.MethodDelete, Pattern: patternAlpha, ID: "alphaDeletePolicy", Tag: tagAlpha, Needs: access.AdminPlane,
			Summary: "Delete a policy", Params: writeParams(onlyIfMatchParam), Answers: noContent(), serve: h.delete,
		},
		{
			Method: http.MethodGet, Pattern: patternAlphaHealth, ID: "alphaHealth", Tag: tagAlpha, Needs: access.Anyone, early: true,
			Summary: "Say that the API answers", Answers: jsonAnswer(http.StatusOK, resource.AlphaHealth{}),
			serve: func(c *call) error { return answerDCM(c, dcm.Health(), nil) },
		},
	}
}

// engineRoutes are those of the engine, whose clients know another form of errors.
func (h *dcmHandlers) engineRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternAlphaEvaluate, ID: "alphaEvaluateRequest", Tag: tagAlpha, Needs: access.Evaluate,
			Summary: "Run a service instance through the policies that match it", Params: []Param{explainParam},
			BodyType: mediaJSON, Body: resource.AlphaEvaluation{}, Answers: jsonAnswer(http.StatusOK, resource.AlphaAdmitted{}),
			serve: h.evaluate,
		},
	}
}

const tagAlpha = "admission v1alpha1"

// dcmCall is what dcm needs of one request.
type dcmCall struct {
	*call
	policies *admissionPolicies
}

var _ dcm.UseCases = dcmCall{}

func (u dcmCall) NewID() (policy.AdmissionPolicyID, error) { return u.policies.newID(u.call) }

func (u dcmCall) Create(id policy.AdmissionPolicyID, d policy.AdmissionPolicy) (projector.AdmissionPolicy, error) {
	return u.policies.create(u.call, id, d)
}

func (u dcmCall) Read(shown func(projector.AdmissionPolicy) bool) (projector.AdmissionPolicy, error) {
	stored, err := u.policies.read(u.call)
	if err == nil && !shown(stored) {
		err = admissionNotFound(stored.ID)
	}
	return stored, err
}

func (u dcmCall) List(keep func(projector.AdmissionPolicy) bool) []projector.AdmissionPolicy {
	return u.policies.list(u.call, keep)
}

func (u dcmCall) Change(change func(d *policy.AdmissionPolicy) error) (projector.AdmissionPolicy, error) {
	return u.policies.change(u.call, change)
}

func (u dcmCall) Evaluate(pointer string, r admission.Request) (admission.Result, *resource.Explanation, error) {
	return u.policies.judge(u.call, pointer, r)
}

// answerDCM sends what dcm answers. A policy that breaks the log's own rules is a
// problem as on every route.
func answerDCM(c *call, a dcm.Answer, err error) error {
	var broken policy.Violations
	if errors.As(err, &broken) {
		return invalid(err)
	}
	if err != nil {
		return err
	}
	if a.Location != "" {
		c.w.Header().Set("Location", patternAlphas+"/"+a.Location)
	}
	return c.json(a.Status, a.Body)
}

func (h *dcmHandlers) create(c *call) error {
	body, err := c.mergePatch()
	if err != nil {
		return err
	}
	a, err := dcm.Create(dcmCall{c, h.policies}, c.r.URL.Query(), body)
	return answerDCM(c, a, err)
}

func (h *dcmHandlers) list(c *call) error {
	a, err := dcm.List(dcmCall{c, h.policies}, c.r.URL.Query())
	return answerDCM(c, a, err)
}

func (h *dcmHandlers) get(c *call) error {
	a, err := dcm.Get(dcmCall{c, h.policies})
	return answerDCM(c, a, err)
}

func (h *dcmHandlers) update(c *call) error {
	body, err := c.mergePatch()
	if err != nil {
		return err
	}
	a, err := dcm.Update(dcmCall{c, h.policies}, body)
	return answerDCM(c, a, err)
}

func (h *dcmHandlers) delete(c *call) error {
	stored, err := h.policies.read(c)
	switch {
	case err == nil && !dcm.Shows(stored):
		return admissionNotFound(stored.ID)
	case err != nil && c.key == "": // under a key it may have been deleted before
		return err
	}
	return h.policies.delete(c)
}

func (h *dcmHandlers) evaluate(c *call) error {
	body, err := c.document()
	if err != nil {
		return err
	}
	a, err := dcm.Evaluate(dcmCall{c, h.policies}, body)
	return answerDCM(c, a, err)
}

package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	patternPolicies = "/v1/projects/{project}/policies"
	patternPolicy   = "/v1/projects/{project}/policies/{policy}"
	cursorPolicies  = "p"
)

// policyHandlers serve policies as authors write and read them.
type policyHandlers struct {
	model interface {
		views
		Orders(project uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]policy.Order, error)
	}
	reads     *reads
	writes    *writes
	admission *draftAdmission
	previews  *previewHandlers
	clock     func() time.Time
	past      *pastHandlers
}

func (h *policyHandlers) routes() []Route {
	return slices.Concat(h.createRoutes(), h.readRoutes(), h.changeRoutes(), h.rolloutRoutes())
}

func (h *policyHandlers) createRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternPolicies, ID: "createPolicy", Tag: "policies", Needs: access.ManagePolicy,
			Summary:  "Publish a policy with its first revision",
			Params:   writeParams(warningsParam),
			BodyType: mediaJSON, Body: resource.Draft{},
			Answers: jsonAnswer(http.StatusCreated, resource.Policy{}, "Location", "ETag", headerWarning),
			Problems: projectProblems(bodyProblems(ruleFaults(authorFaults(policy.CodeInvalidSlug, policy.CodeInvalidDisplayName, projector.CodePolicySlugTaken, projector.CodePolicyIDUsed,
				projector.CodePolicyLimit, projector.CodeRevisionConflict, CodeKeyReused, CodeTooManyAtOnce)...)...)...),
			serve: h.create,
		},
	}
}

func (h *policyHandlers) readRoutes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternPolicies, ID: "listPolicies", Tag: "policies", Needs: access.SeePolicies,
			Summary: "List a project's policies by id, without their heads",
			Params: []Param{
				limitParam, cursorParam, ifNoneMatchParam, queryText("prefix", "Only those whose slugs begin so."),
				queryText("slug", "Only this one, with its head. It goes without prefix and rule."), queryText("rule", "Only those with a rule of all these words."),
			},
			Answers: cachedAnswer(resource.Page[resource.Policy]{}, "ETag"), Problems: readProblems(CodeBadCursor, CodeBadParameter),
			serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternPolicy, ID: "getPolicy", Tag: "policies", Needs: access.ReadPolicy,
			Summary: "Read a policy and its head revision", Params: []Param{atParam},
			Answers: jsonAnswer(http.StatusOK, resource.Policy{}, "ETag"), Problems: pastProblems(readProblems(CodePolicyNotFound)...),
			serve: h.getAt,
		},
	}
}

func (h *policyHandlers) changeRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPatch, Pattern: patternPolicy, ID: "revisePolicy", Tag: "policies", Needs: access.ManagePolicy,
			Summary:  "Publish a new revision; what is absent is inherited, and no change writes nothing",
			Params:   writeParams(onlyIfMatchParam, warningsParam),
			BodyType: mediaJSON, Body: resource.Patch{},
			Answers: jsonAnswer(http.StatusOK, resource.Policy{}, "ETag", headerWarning),
			Problems: projectProblems(bodyProblems(ruleFaults(authorFaults(CodePolicyNotFound, CodePreconditionFailed, projector.CodeRevisionConflict, projector.CodeRolloutUnderWay, CodeContended, CodeKeyReused, CodeTooManyAtOnce,
				policy.CodeInvalidDisplayName, policy.CodeInvalidUUID)...)...)...),
			serve: h.revise,
		},
		{
			Method: http.MethodDelete, Pattern: patternPolicy, ID: "deletePolicy", Tag: "policies", Needs: access.ManagePolicy,
			Summary: "Delete a policy; its id stays used, its slug is free again",
			Params:  writeParams(onlyIfMatchParam), Answers: noContent(),
			Problems: writeProblems(CodePolicyNotFound, CodePreconditionFailed, CodeContended),
			serve:    h.delete,
		},
	}
}

func policyNotFound(id uuid.UUID) error {
	return problem(http.StatusNotFound, CodePolicyNotFound, "this project has no policy %s", id)
}

// livePolicy reads a policy, or says that there is none.
func livePolicy(v *projector.View, project, id uuid.UUID) (policy.Policy, error) {
	pol, ok, err := v.Policy(project, id)
	if err == nil && !ok {
		err = policyNotFound(id)
	}
	return pol, err
}

func (h *policyHandlers) list(c *call) error {
	project, err := c.pathID("project")
	if err != nil {
		return err
	}
	limit, text, err := c.pageOf(cursorPolicies)
	if err != nil {
		return err
	}
	after := uuid.Nil
	if text != "" {
		var ok bool
		if after, ok = parseID(text); !ok {
			return badCursor()
		}
	}
	if q := c.r.URL.Query(); q.Has("slug") {
		for _, other := range [...]string{"prefix", "rule"} {
			if q.Get(other) != "" {
				return broken(http.StatusBadRequest, CodeBadParameter, "/"+other, "policies are listed by slug, or by prefix and rule, not by both")
			}
		}
		return h.named(c, project, q.Get("slug"))
	}
	prefix := c.r.URL.Query().Get("prefix")
	wanted := func(p policy.Policy) bool {
		return strings.HasPrefix(p.Slug, prefix) && (c.who == nil || c.who.MayRead(project, p.ID))
	}
	if words := strings.Fields(strings.ToLower(c.r.URL.Query().Get("rule"))); len(words) > 0 {
		return h.withRule(c, wanted, words, project, after, limit)
	}
	items, err := h.visible(c.r.Context(), wanted, project, after, limit+1)
	if err != nil {
		return err
	}
	end := func(x policy.Policy) string { return x.ID.String() }
	waves := h.waves(project, items)
	show := func(x policy.Policy) resource.Policy {
		out := listPolicy(x)
		out.Waves = waves[x.ID]
		return out
	}
	return tagged(c, cut(items, limit, cursorPolicies, end, show))
}

// named lists the policy of a slug, whole, where there is one that may be read.
func (h *policyHandlers) named(c *call, project uuid.UUID, slug string) error {
	page := resource.Page[resource.Policy]{Items: []resource.Policy{}}
	err := h.reads.check(c, func(v *projector.View) error {
		id, is := v.PolicyBySlug(project, slug)
		switch {
		case !is:
			return errUnknown
		case c.who != nil && !c.who.MayRead(project, id):
			return nil
		}
		pol, err := livePolicy(v, project, id)
		if err == nil {
			out := showPolicy(pol)
			out.Waves = wavesOf(v, project, id)
			page.Items = append(page.Items, out)
		}
		return err
	})
	if err != nil && !errors.Is(err, errUnknown) {
		return err
	}
	return tagged(c, page)
}

// visible returns the first policies above an id that are wanted. It looks
// at them a part at a time, so that the fold waits for none of its lists.
func (h *policyHandlers) visible(ctx context.Context, wanted func(policy.Policy) bool, project, above uuid.UUID, limit int) (visible []policy.Policy, err error) {
	for more := true; more && len(visible) < limit; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var part []policy.Policy
		h.model.Read(func(v *projector.View) { part, above, more, err = v.Policies(project, above, limit) })
		if err != nil {
			return nil, err
		}
		for _, it := range part {
			if wanted(it) {
				visible = append(visible, it)
			}
		}
	}
	visible = visible[:min(limit, len(visible))]
	return visible, h.place(project, visible)
}

// waves are the rollouts of listed policies.
func (h *policyHandlers) waves(project uuid.UUID, listed []policy.Policy) map[uuid.UUID]*resource.Waves {
	out := map[uuid.UUID]*resource.Waves{}
	h.model.Read(func(v *projector.View) {
		for _, it := range listed {
			if w := wavesOf(v, project, it.ID); w != nil {
				out[it.ID] = w
			}
		}
	})
	return out
}

// place says of listed policies where they stand among others.
func (h *policyHandlers) place(project uuid.UUID, listed []policy.Policy) error {
	ids := make([]uuid.UUID, len(listed))
	for i, it := range listed {
		ids[i] = it.ID
	}
	orders, err := h.model.Orders(project, ids)
	for i, it := range listed {
		listed[i].Head.Order = orders[it.ID]
	}
	return err
}

func (h *policyHandlers) get(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	var pol policy.Policy
	var waves *resource.Waves
	err = h.reads.check(c, func(v *projector.View) (err error) {
		pol, err = livePolicy(v, project, id)
		waves = wavesOf(v, project, id)
		return err
	})
	if err != nil {
		return err
	}
	out := showPolicy(pol)
	out.Waves = waves
	return c.policy(http.StatusOK, out)
}

// policy answers with a policy.
func (c *call) policy(status int, p resource.Policy) error {
	c.w.Header().Set("ETag", policyTag(p.HeadRevisionID))
	p.Admission = c.admitted
	return c.json(status, p)
}

func (h *policyHandlers) delete(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	only, err := c.condition()
	if err != nil {
		return err
	}
	e := policy.PolicyDeleted{Project: project, Policy: id}
	if e.ID, err = h.writes.id(c, project, "delete:"+id.String()); err != nil {
		return err
	}
	return h.writes.removeIf(c, e, only, func(v *projector.View) (string, error) {
		pol, err := livePolicy(v, project, id)
		return policyTag(pol.Head.ID), err
	})
}

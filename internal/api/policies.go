package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	patternPolicies = "/v1/projects/{project}/policies"
	patternPolicy   = "/v1/projects/{project}/policies/{policy}"
	cursorPolicies  = "p"
)

// policyHandlers serve policies as authors write and read them.
type policyHandlers struct {
	model     views
	reads     *reads
	writes    *writes
	admission *draftAdmission
	clock     func() time.Time
}

func (h *policyHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternPolicies, ID: "createPolicy", Tag: "policies", Needs: access.ManagePolicy,
			Summary:  "Publish a policy with its first revision",
			Params:   writeParams(),
			BodyType: mediaJSON, Body: resource.Draft{},
			Answers: []Answer{{Status: http.StatusCreated, MediaType: mediaJSON, Body: resource.Policy{}, Headers: []string{"Location"}}},
			Problems: projectProblems(bodyProblems(ruleFaults(authorFaults(policy.CodeInvalidSlug, policy.CodeInvalidDisplayName, projector.CodePolicySlugTaken, projector.CodePolicyIDUsed,
				projector.CodePolicyLimit, projector.CodeRevisionConflict, CodeKeyReused)...)...)...),
			serve: h.create,
		},
		{
			Method: http.MethodGet, Pattern: patternPolicies, ID: "listPolicies", Tag: "policies", Needs: access.SeePolicies,
			Summary: "List a project's policies by id, without their heads",
			Params:  []Param{limitParam, cursorParam},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Policy]{}), Problems: []string{CodeBadCursor},
			serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternPolicy, ID: "getPolicy", Tag: "policies", Needs: access.ReadPolicy,
			Summary: "Read a policy and its head revision",
			Answers: jsonAnswer(http.StatusOK, resource.Policy{}), Problems: readProblems(CodePolicyNotFound),
			serve: h.get,
		},
		{
			Method: http.MethodPatch, Pattern: patternPolicy, ID: "revisePolicy", Tag: "policies", Needs: access.ManagePolicy,
			Summary:  "Publish a new revision; what is absent is inherited, and no change writes nothing",
			Params:   writeParams(),
			BodyType: mediaJSON, Body: resource.Patch{},
			Answers: jsonAnswer(http.StatusOK, resource.Policy{}),
			Problems: projectProblems(bodyProblems(ruleFaults(authorFaults(CodePolicyNotFound, projector.CodeRevisionConflict, CodeContended, CodeKeyReused,
				policy.CodeInvalidDisplayName, policy.CodeInvalidUUID)...)...)...),
			serve: h.revise,
		},
		{
			Method: http.MethodDelete, Pattern: patternPolicy, ID: "deletePolicy", Tag: "policies", Needs: access.ManagePolicy,
			Summary: "Delete a policy; its id stays used, its slug is free again",
			Params:  writeParams(), Answers: noContent(),
			Problems: writeProblems(CodePolicyNotFound),
			serve:    h.delete,
		},
	}
}

func (h *policyHandlers) create(c *call) error {
	project, err := c.pathID("project")
	if err != nil {
		return err
	}
	body, err := c.document()
	if err != nil {
		return err
	}
	draft, err := policy.DecodeDraft(body)
	if err != nil {
		return invalid(err)
	}
	if err := checkName("/display_name", draft.DisplayName); err != nil {
		return err
	}
	e := policy.RevisionCreated{Project: project, Slug: draft.Slug, DisplayName: draft.DisplayName}
	e.Revision = policy.Revision{Selector: draft.Selector, Order: draft.Order, Rules: draft.Rules}
	if e.Policy, err = h.writes.id(c, project, "create:policy"); err != nil {
		return err
	}
	if err := h.sign(c, &e, "create"); err != nil {
		return err
	}
	published := false
	err = h.reads.check(c, func(v *projector.View) error {
		if published, err = h.published(v, c, e); published || err != nil {
			return err
		}
		if h.writes.refusal(v, asNew(e)) == projector.CodePolicySlugTaken {
			other, _ := v.PolicyBySlug(project, e.Slug)
			return problem(http.StatusConflict, projector.CodePolicySlugTaken,
				"slug %q belongs to policy %s of this project", e.Slug, other)
		}
		return nil
	})
	if err == nil && published {
		err = h.writes.sameBody(c.r.Context(), e, c.asked)
	}
	if err != nil {
		return err
	}
	if !published {
		if err := h.admission.revision(c, &e); err != nil {
			return err
		}
		if _, err := h.writes.commit(c, e, true); err != nil {
			return err
		}
	}
	c.w.Header().Set("Location", fmt.Sprintf("/v1/projects/%s/policies/%s", project, e.Policy))
	return h.answer(c, http.StatusCreated, e)
}

// asNew is a first revision under ids that nothing has: whether one like it could be
// published, whatever became of a write before under the same key.
func asNew(e policy.RevisionCreated) policy.RevisionCreated {
	e.Policy, e.Revision.ID = uuid.Nil, uuid.Nil
	return e
}

// sign fills in what every revision gets from its call: ids, author, time.
func (h *policyHandlers) sign(c *call, e *policy.RevisionCreated, role string) (err error) {
	if e.ID, err = h.writes.id(c, e.Project, role+":event"); err != nil {
		return err
	}
	if e.Revision.ID, err = h.writes.id(c, e.Project, role+":revision"); err != nil {
		return err
	}
	e.Revision.CreatedAt = h.clock().UTC()
	e.Revision.CreatedBy = c.principal
	e.Revision.CorrelationID = c.given
	return nil
}

// published reports whether a keyed write has been made before: its revision
// id is then a revision of its policy.
func (h *policyHandlers) published(v *projector.View, c *call, e policy.RevisionCreated) (bool, error) {
	if c.key == "" {
		return false, nil
	}
	_, ok, err := v.Revision(e.Project, e.Policy, e.Revision.ID)
	return ok, err
}

// answer shows the policy as a write left it, also
// when it was revised since: a retry gets what the first try got.
func (h *policyHandlers) answer(c *call, status int, e policy.RevisionCreated) error {
	var out resource.Policy
	var err error
	h.model.Read(func(v *projector.View) { out, err = policyAt(v, e) })
	if err != nil {
		return err
	}
	return c.json(status, out)
}

func policyAt(v *projector.View, e policy.RevisionCreated) (resource.Policy, error) {
	pol, ok, err := v.Policy(e.Project, e.Policy)
	if err != nil {
		return resource.Policy{}, err
	}
	if !ok {
		return resource.Policy{}, policyNotFound(e.Policy)
	}
	if pol.Head.ID == e.Revision.ID {
		return showPolicy(pol), nil
	}
	rev, ok, err := v.Revision(e.Project, e.Policy, e.Revision.ID)
	if err != nil {
		return resource.Policy{}, err
	}
	if !ok {
		return resource.Policy{}, problem(http.StatusConflict, projector.CodePolicyIDUsed,
			"this Idempotency-Key was used for another write")
	}
	pol.Head, pol.UpdatedAt = rev.Revision, rev.CreatedAt
	if rev.Parent == uuid.Nil {
		pol.UpdatedAt = pol.CreatedAt
	}
	return showPolicy(pol), nil
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
	items, err := h.visible(c.r.Context(), c.who, project, after, limit+1)
	if err != nil {
		return err
	}
	end := func(x policy.Policy) string { return x.ID.String() }
	return c.json(http.StatusOK, cut(items, limit, cursorPolicies, end, listPolicy))
}

// visible returns the first policies above an id that who may read. It looks
// at them a part at a time, so that the fold waits for none of its lists.
func (h *policyHandlers) visible(ctx context.Context, who *access.Principal, project, above uuid.UUID, limit int) (visible []policy.Policy, err error) {
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
			if who == nil || who.MayRead(project, it.ID) {
				visible = append(visible, it)
			}
		}
	}
	return visible[:min(limit, len(visible))], nil
}

func (h *policyHandlers) get(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	var pol policy.Policy
	err = h.reads.check(c, func(v *projector.View) (err error) {
		pol, err = livePolicy(v, project, id)
		return err
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, showPolicy(pol))
}

func (h *policyHandlers) revise(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	body, err := c.document()
	if err != nil {
		return err
	}
	patch, err := policy.DecodePatch(body)
	if err != nil {
		return invalid(err)
	}
	if patch.DisplayName != nil {
		if err := checkName("/display_name", *patch.DisplayName); err != nil {
			return err
		}
	}
	e := policy.RevisionCreated{Project: project, Policy: id}
	if err := h.sign(c, &e, "revise:"+id.String()); err != nil {
		return err
	}
	if patch.Expected != nil {
		return h.publishRevision(c, e, patch, false)
	}
	return h.writes.insist(c, func(again bool) error { return h.publishRevision(c, e, patch, again) })
}

// publishRevision makes of e what patch makes of the policy's head, publishes
// it, and answers. again says that the log has e, and refused it.
func (h *policyHandlers) publishRevision(c *call, e policy.RevisionCreated, patch policy.Patch, again bool) error {
	var pol policy.Policy
	published := false
	err := h.reads.check(c, func(v *projector.View) (err error) {
		if published, err = h.published(v, c, e); published || err != nil {
			return err
		}
		if pol, err = livePolicy(v, e.Project, e.Policy); err != nil {
			return err
		}
		if patch.Expected != nil && h.writes.refusal(v, after(e, pol, *patch.Expected)) != "" {
			return problem(http.StatusConflict, projector.CodeRevisionConflict,
				"the head is revision %s, not %s; read it, then send the change again", pol.Head.ID, *patch.Expected)
		}
		if !revise(&e, pol, patch) {
			return errUnchanged
		}
		return nil
	})
	switch {
	case errors.Is(err, errUnchanged):
		return c.json(http.StatusOK, showPolicy(pol))
	case err != nil:
		return err
	case published:
		if err := h.writes.sameBody(c.r.Context(), e, c.asked); err != nil {
			return err
		}
		return h.answer(c, http.StatusOK, e)
	}
	if err := h.admission.revision(c, &e); err != nil {
		return err
	}
	if _, err := h.writes.append(c, streams.Append{Event: e, Again: again}, false); err != nil {
		return err
	}
	return h.answer(c, http.StatusOK, e)
}

// after is a revision of a policy, in name as it is, behind that parent.
func after(e policy.RevisionCreated, pol policy.Policy, parent uuid.UUID) policy.RevisionCreated {
	e.Slug, e.Revision.Parent = pol.Slug, parent
	return e
}

// revise fills e with pol's head under patch, and reports whether that changes
// anything an author wrote: the order of rules counts, spaces in a selector do
// not.
func revise(e *policy.RevisionCreated, pol policy.Policy, patch policy.Patch) bool {
	e.Slug, e.DisplayName = pol.Slug, pol.DisplayName
	e.Revision.Parent = pol.Head.ID
	e.Revision.Selector, e.Revision.Order, e.Revision.Rules = pol.Head.Selector, pol.Head.Order, pol.Head.Rules
	if patch.DisplayName != nil {
		e.DisplayName = *patch.DisplayName
	}
	if patch.Selector != nil {
		e.Revision.Selector = *patch.Selector
	}
	reorder(&e.Revision.Order, patch)
	if patch.Rules != nil {
		e.Revision.Rules = patch.Rules
	}
	return e.DisplayName != pol.DisplayName ||
		showSelector(e.Revision.Selector) != showSelector(pol.Head.Selector) ||
		e.Revision.Order != pol.Head.Order ||
		!slices.Equal(e.Revision.Rules, pol.Head.Rules)
}

func reorder(o *policy.Order, patch policy.Patch) {
	if patch.Tier != nil {
		o.Tier = *patch.Tier
	}
	if patch.Priority != nil {
		o.Priority = *patch.Priority
	}
	if patch.DefaultDeny != nil {
		o.NoDefaultDeny = !*patch.DefaultDeny
	}
}

func (h *policyHandlers) delete(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	e := policy.PolicyDeleted{Project: project, Policy: id}
	if e.ID, err = h.writes.id(c, project, "delete:"+id.String()); err != nil {
		return err
	}
	return h.writes.remove(c, e, func(v *projector.View) error {
		_, err := livePolicy(v, project, id)
		return err
	})
}

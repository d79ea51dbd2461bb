package api

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

func (h *policyHandlers) create(c *call) error {
	e, err := h.first(c)
	if err != nil {
		return err
	}
	published := false
	err = h.reads.check(c, func(v *projector.View) error {
		if published, err = h.published(v, c, e); published || err != nil {
			return err
		}
		if h.writes.refusal(v, asNew(e)) == projector.CodePolicySlugTaken {
			other, _ := v.PolicyBySlug(e.Project, e.Slug)
			return problem(http.StatusConflict, projector.CodePolicySlugTaken,
				"slug %q belongs to policy %s of this project", e.Slug, other)
		}
		return nil
	})
	if err == nil && published {
		err = h.writes.sameBody(c.r.Context(), e, c.asked, 0)
	}
	if err != nil {
		return err
	}
	var warnings []resource.Warning
	if !published {
		if err := h.admission.revision(c, &e); err != nil {
			return err
		}
		if warnings, err = h.previews.before(c, e); err != nil {
			return err
		}
		if _, err := h.writes.commit(c, e, true); err != nil {
			return err
		}
	}
	c.w.Header().Set("Location", fmt.Sprintf("/v1/projects/%s/policies/%s", e.Project, e.Policy))
	return h.answer(c, http.StatusCreated, e, warnings)
}

// first reads the draft of a policy and makes its first revision of it.
func (h *policyHandlers) first(c *call) (e policy.RevisionCreated, err error) {
	if e.Project, err = c.pathID("project"); err != nil {
		return e, err
	}
	draft, err := decoded(c, policy.DecodeDraft)
	if err != nil {
		return e, err
	}
	if err := checkName("/display_name", draft.DisplayName); err != nil {
		return e, err
	}
	e.Slug, e.DisplayName = draft.Slug, draft.DisplayName
	e.Revision = policy.Revision{Selector: draft.Selector, Order: draft.Order, Rules: draft.Rules}
	if e.Policy, err = h.writes.id(c, e.Project, "create:policy"); err != nil {
		return e, err
	}
	return e, h.sign(c, &e, "create")
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
func (h *policyHandlers) answer(c *call, status int, e policy.RevisionCreated, warnings []resource.Warning) error {
	var out resource.Policy
	var err error
	h.model.Read(func(v *projector.View) { out, err = policyAt(v, e) })
	if err != nil {
		return err
	}
	out.Warnings = warnings
	return c.policy(status, out)
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
	pol.Head, pol.UpdatedAt = rev.Revision, rev.Time
	pol.Slug, pol.DisplayName = rev.Slug, rev.DisplayName
	return showPolicy(pol), nil
}

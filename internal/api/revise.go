package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

func (h *policyHandlers) revise(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	patch, err := decoded(c, policy.DecodePatch)
	if err != nil {
		return err
	}
	if patch.DisplayName != nil {
		if err := checkName("/display_name", *patch.DisplayName); err != nil {
			return err
		}
	}
	only, err := c.condition()
	if err != nil {
		return err
	}
	e := policy.RevisionCreated{Project: project, Policy: id}
	if err := h.sign(c, &e, "revise:"+id.String()); err != nil {
		return err
	}
	if patch.Expected != nil || only.named() {
		return h.publishRevision(c, e, patch, only, false)
	}
	return h.writes.insist(c, func(again bool) error { return h.publishRevision(c, e, patch, only, again) })
}

// publishRevision makes of e what patch makes of the policy's head, if only names
// that, publishes it, and answers. again says that the log has e, and refused it.
func (h *policyHandlers) publishRevision(c *call, e policy.RevisionCreated, patch policy.Patch, only condition, again bool) error {
	var pol policy.Policy
	published := false
	err := h.reads.check(c, func(v *projector.View) (err error) {
		if published, err = h.published(v, c, e); published || err != nil {
			return err
		}
		if pol, err = livePolicy(v, e.Project, e.Policy); err != nil {
			return err
		}
		if err := only.holds(policyTag(pol.Head.ID)); err != nil {
			return err
		}
		if patch.Expected != nil && h.writes.refusal(v, after(e, pol, *patch.Expected)) == projector.CodeRevisionConflict {
			return problem(http.StatusConflict, projector.CodeRevisionConflict,
				"the head is revision %s, not %s; read it, then send the change again", pol.Head.ID, *patch.Expected)
		}
		if !revise(&e, pol, patch) {
			return errUnchanged
		}
		if r, ok := projector.RolloutOf(v, e.Project, e.Policy); ok && r.UnderWay() {
			return problem(http.StatusConflict, projector.CodeRolloutUnderWay,
				"revision %s of the policy is being rolled out; wait until that has ended, or abort it", r.Revision)
		}
		return nil
	})
	switch {
	case errors.Is(err, errUnchanged):
		return c.policy(http.StatusOK, showPolicy(pol))
	case err != nil:
		return err
	case published:
		if err := h.writes.sameBody(c.r.Context(), e, c.asked, 0); err != nil {
			return err
		}
		return h.answer(c, http.StatusOK, e, nil)
	}
	if err := h.admission.revision(c, &e); err != nil {
		return err
	}
	if saysAs(e, pol) { // admission policies made of it what is there
		return c.policy(http.StatusOK, showPolicy(pol))
	}
	warnings, err := h.previews.before(c, e)
	if err != nil {
		return err
	}
	if _, err := h.writes.append(c, streams.Append{Event: e, Again: again}, false); err != nil {
		return only.lost(err)
	}
	return h.answer(c, http.StatusOK, e, warnings)
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
	return !saysAs(*e, pol)
}

// saysAs reports whether a revision says what the policy's head does.
func saysAs(e policy.RevisionCreated, pol policy.Policy) bool {
	return e.Slug == pol.Slug && e.DisplayName == pol.DisplayName &&
		showSelector(e.Revision.Selector) == showSelector(pol.Head.Selector) &&
		e.Revision.Order == pol.Head.Order &&
		slices.Equal(e.Revision.Rules, pol.Head.Rules)
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
	if patch.Audit != nil {
		o.Audit = *patch.Audit
	}
}

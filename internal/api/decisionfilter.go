package api

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

func decisionFilters() []Param {
	return []Param{
		queryText("policy", "Only those in which the policy of this id or name refused, failed, judged, or would have as a shadow."),
		queryText("user", "Only those that this user asked for."), queryText("tenant", "Only those of this tenant."),
		{Name: "outcome", In: "query", Summary: "Only those that ended so.", Schema: &openapi.Schema{Type: "string", Enum: openapi.OneOfTexts(admission.Outcomes...)}},
		queryText("decision", "Only the one of this id."),
	}
}

func decisionTimes() []Param {
	return []Param{
		{Name: "since", In: "query", Summary: "Only those of this moment or later.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}},
		{Name: "until", In: "query", Summary: "Only those before this moment.", Schema: &openapi.Schema{Type: "string", Format: "date-time"}},
	}
}

// wanted is which decisions are asked for.
type wanted struct {
	q            url.Values
	since, until time.Time
}

func (c *call) wantedDecisions() (w wanted, err error) {
	w.q = c.r.URL.Query()
	if text := w.q.Get("outcome"); text != "" && !slices.Contains(admission.Outcomes, text) {
		return w, broken(http.StatusBadRequest, CodeBadParameter, "/outcome", "%q is no outcome; there are %v", text, admission.Outcomes)
	}
	for name, into := range map[string]*time.Time{"since": &w.since, "until": &w.until} {
		if w.q.Get(name) != "" {
			if *into, err = c.queryTime(name); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// shown is a decision as who asks may see it; false: it is not asked for, or not to be
// seen.
func (w wanted) shown(who *access.Principal, d resource.Decision) (resource.Decision, bool) {
	d, ok := visibleTo(who, d)
	return d, ok && asked(w.q["user"], d.UserID) && asked(w.q["tenant"], d.TenantID) && asked(w.q["outcome"], d.Outcome) && asked(w.q["decision"], d.DecisionID) &&
		tookPart(w.q.Get("policy"), d) && !d.Time.Before(w.since) && (w.until.IsZero() || d.Time.Before(w.until))
}

// tookPart reports whether the policy of an id or name refused, failed or judged, or
// would have as a shadow.
func tookPart(policy string, d resource.Decision) bool {
	return policy == "" || d.Policy != nil && (d.Policy.ID == policy || d.Policy.Name == policy) ||
		slices.ContainsFunc(d.Policies, func(x resource.Judgement) bool { return x.ID == policy || x.Name == policy }) ||
		slices.ContainsFunc(d.Shadows, func(x resource.ShadowDecision) bool { return x.ID == policy || x.Name == policy })
}

// visibleTo is a decision with the policies that who asks may see; false: he may not see
// the decision. The one that was given is shared, and stays as it is. Who refused or failed is shown to all: the answer to the request named it.
func visibleTo(who *access.Principal, d resource.Decision) (resource.Decision, bool) {
	if who == nil {
		return d, true
	}
	sees := func(level string, owned bool) bool {
		tenant, user := "", ""
		if owned {
			tenant, user = d.TenantID, d.UserID
		}
		return who.MaySee(policy.Level(level), tenant, user)
	}
	d.Policies = slices.DeleteFunc(slices.Clone(d.Policies), func(x resource.Judgement) bool { return !sees(x.Level, x.Owned) })
	d.Shadows = slices.DeleteFunc(slices.Clone(d.Shadows), func(x resource.ShadowDecision) bool { return !sees(x.Level, x.Owned) })
	return d, who.MaySee(policy.Tenant, d.TenantID, "") || who.MaySee(policy.User, "", d.UserID)
}

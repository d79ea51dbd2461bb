package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/policy"
)

// serviceNetworkPolicy is the service type under which network policies are
// judged.
const serviceNetworkPolicy = "network-policy"

// authorFaults are what an admission policy may answer to an author.
func authorFaults(more ...string) []string {
	return append(more, CodeRejected, CodePolicyConflict, CodePolicyFailed, CodePolicyTimeout, CodeInvalidPatched, CodeInvalidPayload, CodeTooManyAtOnce)
}

// authored is a network policy as admission policies see it.
type authored struct {
	Slug        string          `json:"slug,omitempty"`
	DisplayName string          `json:"display_name,omitempty"`
	Selector    json.RawMessage `json:"selector"`
	resource.Order
	Rules json.RawMessage `json:"rules"`
}

// draftAdmission has admission policies judge network policies.
type draftAdmission struct{ registry *admission.Registry }

// draft runs a network policy through the admission policies: service type
// network-policy, the caller as user, the project as tenant. The draft comes
// back as they patched it. A dry run of a policy that does not exist has no slug.
func (a *draftAdmission) draft(c *call, project uuid.UUID, d policy.Draft, dry bool) (policy.Draft, admission.Result, error) {
	text, err := json.Marshal(authored{d.Slug, d.DisplayName, policy.AppendSelector(nil, d.Selector), showOrder(d.Order), policy.AppendRules(nil, d.Rules)})
	if err != nil {
		return d, admission.Result{}, fmt.Errorf("write the draft: %w", err)
	}
	payload, err := admission.ParsePayload(text)
	if err != nil {
		return d, admission.Result{}, fmt.Errorf("read the draft: %w", err)
	}
	result, err := a.registry.Evaluate(c.r.Context(), admission.Request{
		ServiceType: serviceNetworkPolicy, Labels: admission.LabelsOf(payload), Payload: payload,
		UserID: c.principal, TenantID: project.String(),
	}, admission.Options{DryRun: dry})
	if err != nil {
		return d, result, unadmitted(err, "")
	}
	if result.Status != admission.Modified {
		return d, result, nil
	}
	patched := result.Payload
	if d.Slug == "" { // and no name, whatever policies made of it
		patched = maps.Clone(patched)
		delete(patched, "slug")
		delete(patched, "display_name")
	}
	if text, err = json.Marshal(patched); err != nil {
		return d, result, fmt.Errorf("write what was admitted: %w", err)
	}
	if d.Slug == "" {
		d.Content, err = policy.DecodePreview(text)
	} else {
		d, err = policy.DecodeDraft(text)
	}
	if err != nil {
		pr := problem(http.StatusInternalServerError, CodeInvalidPatched, "admission policies patched the policy into one that is not valid: %v", err)
		return d, result, pr
	}
	return d, result, nil
}

// revision is draft for a revision that is about to be published.
func (a *draftAdmission) revision(c *call, e *policy.RevisionCreated) error {
	d, _, err := a.draft(c, e.Project, policy.Draft{Slug: e.Slug, DisplayName: e.DisplayName, Content: e.Revision.Content()}, false)
	if err != nil {
		return err
	}
	e.Slug, e.DisplayName = d.Slug, d.DisplayName
	e.Revision.Selector, e.Revision.Order, e.Revision.Rules = d.Selector, d.Order, d.Rules
	return nil
}

// admissionEffect shows what admission policies made of a dry run; nil when
// they left it as it was.
func admissionEffect(result admission.Result, content policy.Content) *resource.AdmissionEffect {
	if result.Status != admission.Modified {
		return nil
	}
	return &resource.AdmissionEffect{
		Status: string(result.Status), SnapshotVersion: result.SnapshotVersion, Selector: showSelector(content.Selector), Order: showOrder(content.Order), Rules: showRules(content.Rules),
	}
}

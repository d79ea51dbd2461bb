package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

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
// back as they patched it. A dry run of a policy that does not exist may have no slug.
func (a *draftAdmission) draft(c *call, project uuid.UUID, d policy.Draft, dry bool) (policy.Draft, admission.Result, error) {
	text, err := json.Marshal(authored{d.Slug, d.DisplayName, policy.AppendSelector(nil, d.Selector), showOrder(d.Order), policy.AppendRules(nil, d.Rules)})
	if err != nil {
		return d, admission.Result{}, fmt.Errorf("write the draft: %w", err)
	}
	payload, err := admission.ParsePayload(text)
	if err != nil {
		return d, admission.Result{}, fmt.Errorf("read the draft: %w", err)
	}
	named := d.Slug != ""
	result, err := a.registry.Evaluate(c.r.Context(), admission.Request{
		ServiceType: serviceNetworkPolicy, Labels: admission.LabelsOf(payload), Payload: payload,
		Caller: c.principal, UserID: c.principal, TenantID: project.String(),
		Fits: func(patched map[string]any) []admission.Misfit { return misfits(patched, named) },
	}, admission.Options{DryRun: dry})
	if err != nil {
		return d, result, unadmitted(err, "")
	}
	c.tellPatches(result.Patches)
	if result.Status != admission.Modified {
		return d, result, nil
	}
	if d, err = draftOf(result.Payload, named); err != nil {
		return d, result, fmt.Errorf("read what was admitted: %w", err) // it fitted
	}
	return d, result, nil
}

// draftOf reads a payload. One without a slug has no name, whatever policies made
// of it. The error is policy.Violations.
func draftOf(payload map[string]any, named bool) (d policy.Draft, err error) {
	if !named {
		payload = maps.Clone(payload)
		delete(payload, "slug")
		delete(payload, "display_name")
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return d, err
	}
	if named {
		return policy.DecodeDraft(text)
	}
	d.Content, err = policy.DecodePreview(text)
	return d, err
}

// misfits are what keeps a payload from being a network policy.
func misfits(payload map[string]any, named bool) []admission.Misfit {
	_, err := draftOf(payload, named)
	if err == nil {
		return nil
	}
	var faults policy.Violations
	if !errors.As(err, &faults) {
		return []admission.Misfit{{Reason: err.Error()}}
	}
	list := make([]admission.Misfit, len(faults))
	for i, f := range faults {
		list[i] = admission.Misfit{Pointer: f.Pointer, Unknown: f.Code == policy.CodeUnknownField, Reason: f.Detail}
	}
	return list
}

// revision is draft for a revision that is about to be published.
func (a *draftAdmission) revision(c *call, e *policy.RevisionCreated) error {
	d, result, err := a.draft(c, e.Project, policy.Draft{Slug: e.Slug, DisplayName: e.DisplayName, Content: e.Revision.Content()}, false)
	if err != nil {
		return err
	}
	e.Slug, e.DisplayName = d.Slug, d.DisplayName
	e.Revision.Selector, e.Revision.Order, e.Revision.Rules = d.Selector, d.Order, d.Rules
	c.admitted = admissionNote(result)
	return nil
}

// admissionEffect shows what admission policies made of a dry run; nil when
// they left it as it was.
func admissionEffect(result admission.Result, content policy.Content) *resource.AdmissionEffect {
	if note := admissionNote(result); note != nil {
		return &resource.AdmissionEffect{
			Status: note.Status, SnapshotVersion: note.SnapshotVersion, Patches: note.Patches,
			Selector: showSelector(content.Selector), Order: showOrder(content.Order), Rules: showRules(content.Rules),
		}
	}
	return nil
}

// admissionNote tells an author what admission policies made of what was sent; nil
// when they left it as it was.
func admissionNote(result admission.Result) *resource.AdmissionNote {
	if len(result.Patches) == 0 {
		return nil
	}
	note := &resource.AdmissionNote{Status: string(result.Status), SnapshotVersion: result.SnapshotVersion}
	for _, p := range result.Patches {
		shown := resource.AdmissionPatch{Policy: resource.Deciding{ID: p.PolicyID, Name: p.PolicyName}, Dropped: p.Dropped}
		for _, x := range p.Changes {
			shown.Changes = append(shown.Changes, resource.Change{Op: x.Op, Path: x.Path, Old: rawJSON(x.From), Value: rawJSON(x.Value)})
		}
		note.Patches = append(note.Patches, shown)
	}
	return note
}

func rawJSON(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, _ := json.Marshal(v) // of a payload, which was JSON
	return text
}

// tellPatches warns whoever reads headers that a policy is not as it was sent
// (RFC 9111 has the form, 299 the meaning; Kubernetes does the same).
func (c *call) tellPatches(patches []admission.Patch) {
	for _, p := range patches {
		if len(p.Changes) > 0 {
			paths := make([]string, len(p.Changes))
			for i, x := range p.Changes {
				paths[i] = x.Path
			}
			c.warn("admission policy %s changed %s", p.PolicyName, strings.Join(paths, ", "))
		}
		if len(p.Dropped) > 0 {
			c.warn("of the patch of admission policy %s this was left out, because a network policy does not have it: %s", p.PolicyName, strings.Join(p.Dropped, ", "))
		}
	}
}

package api

import (
	"slices"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

// admissionPriority is the place of an admission policy within its level.
var admissionPriority = schema{Description: "A lower number runs first within a level. Unique per level and owner.", Minimum: openapi.N(0)}

// admissionStatus is what admission made of a request.
var admissionStatus = schema{Description: "MODIFIED when a policy changed the payload.", Enum: openapi.OneOfTexts(admission.Approved, admission.Modified)}

func admissionHints() map[string]hint {
	optional := hint{Optional: true}
	return map[string]hint{
		"AdmissionDraft":  says("An admission policy as its author sends it."),
		"AdmissionChange": says("What replaces an admission policy. What is absent has its default; what never changes may be absent."),
		"AdmissionPolicy": says("A registered admission policy."),
		"AdmissionID":     says("Names the policy that was made."),

		"AdmissionPolicyPage":             says("A page of admission policies."),
		"AdmissionPolicyPage.items":       says("Admission policies by id."),
		"AdmissionPolicyPage.next_cursor": nextCursor,

		"AdmissionEffect":              says("A policy as admission policies patched it."),
		"AdmissionEffect.status":       {Schema: admissionStatus},
		"AdmissionEffect.tier":         {Schema: tier},
		"AdmissionEffect.priority":     {Schema: admissionPriority},
		"AdmissionEffect.default_deny": {Schema: defaultDeny},
		"AdmissionEffect.mode":         {Schema: enforcement},

		"AdmissionNote":        says("What admission policies made of what an author sent."),
		"AdmissionNote.status": {Schema: admissionStatus},
		"AdmissionPatch":       says("What one admission policy changed."),
		"Change":               says("One operation of a JSON patch (RFC 6902)."),
		"Change.old":           {AnyJSON: true, Optional: true},
		"Change.value":         {AnyJSON: true, Optional: true},

		"DecisionPage":             says("A page of decisions."),
		"DecisionPage.items":       says("Decisions, newest first."),
		"DecisionPage.next_cursor": nextCursor,
		"Decision":                 says("What admission policies decided about one request."),
		"Decision.outcome":         {Schema: schema{Enum: openapi.OneOfTexts(admission.Outcomes...)}},
		"Decision.request_payload": {Schema: schema{Type: []string{"object", "null"}}},
		"Decision.result_payload":  {Schema: schema{Type: []string{"object", "null"}}, Optional: true},
		"ShadowDecision":           says("What a shadow policy would have done."),
		"Judgement":                says("A policy's part in a decision."),

		"DecisionExplanation":  says("A decision, and what policies say of its request, then and now."),
		"DecidingPolicy":       says("A policy that took part in a decision, then and now."),
		"DecidingPolicy.state": {Schema: schema{Enum: []any{resource.PolicyUnchanged, resource.PolicyChanged, resource.PolicyGone, resource.PolicyUnknown}}},
		"Verdict":              says("What a set of admission policies says of a request."),

		"Evaluation":           says("A request that is to be admitted."),
		"Evaluation.user_id":   optional,
		"Evaluation.tenant_id": optional,
		"Admitted":             says("A request that was admitted."),
		"Admitted.status":      {Schema: admissionStatus},
		"Provider":             says("The provider that was chosen, and from what."),
		"ProviderConstraints":  says("What bounds the choice of a provider."),
		"Explanation":          says("What each admission policy did."),
		"Deciding":             says("The admission policy that decided."),
	}
}

// admissionPolicyHints are those of a policy's members in its three forms.
func admissionPolicyHints() map[string]hint {
	level := schema{Description: "The level: Global policies run first, User policies last.", Enum: openapi.OneOfTexts(policy.Levels...)}
	mode := schema{Description: "enforce, or shadow for a policy whose decision is recorded and has no effect.", Enum: openapi.OneOfTexts(policy.Enforce, policy.Shadow)}
	required := map[string][]string{
		"AdmissionDraft":  {"name", "policy_type", "rego_code"},
		"AdmissionChange": {"rego_code"},
	}
	all := map[string]hint{}
	for _, owner := range []string{"AdmissionDraft", "AdmissionChange", "AdmissionPolicy"} {
		shown := owner == "AdmissionPolicy"
		put := func(name string, s schema) {
			all[owner+"."+name] = hint{Schema: s, Optional: !shown && !slices.Contains(required[owner], name)}
		}
		put("name", schema{Description: "Its name, unique per level and owner; it never changes.", MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxAdmissionName)})
		put("description", schema{Description: "What it is for.", MaxLength: openapi.N(policy.MaxAdmissionDescription)})
		put("policy_type", level)
		if !shown { // any case is understood
			put("policy_type", schema{Description: level.Description, Pattern: "^([Gg][Ll][Oo][Bb][Aa][Ll]|[Tt][Ee][Nn][Aa][Nn][Tt]|[Uu][Ss][Ee][Rr])$", Examples: []any{"Tenant"}})
		}
		put("tenant_id", schema{Description: "The tenant that a Tenant or User policy is for; everybody when absent."})
		put("user_id", schema{Description: "The user that a User policy is for; everybody when absent."})
		put("service_type", schema{Description: "The service type of the requests it judges; any when absent."})
		put("label_selector", schema{Description: "Labels of the requests it judges; all must be equal."})
		put("priority", admissionPriority)
		put("enabled", schema{Description: "Whether it judges."})
		put("mode", mode)
		put("rego_code", schema{Description: "Its code, Rego v1."})
		put("test_cases", schema{Description: "Requests and what the policy must make of them before it goes live."})
	}
	return all
}

// alphaHints are those of v1alpha1.
func alphaHints() map[string]hint {
	optional := hint{Optional: true}
	relaxed := func(s schema) hint { return hint{Schema: s, Optional: true} }
	return map[string]hint{
		"AlphaPolicy":                says("An admission policy as clients of v1alpha1 know it."),
		"AlphaPolicy.path":           optional,
		"AlphaPolicy.id":             optional,
		"AlphaPolicy.display_name":   relaxed(schema{MaxLength: openapi.N(policy.MaxAdmissionName)}),
		"AlphaPolicy.description":    optional,
		"AlphaPolicy.policy_type":    relaxed(schema{Enum: []any{"GLOBAL", "USER"}}),
		"AlphaPolicy.label_selector": optional,
		"AlphaPolicy.priority":       relaxed(schema{Minimum: openapi.N(0)}),
		"AlphaPolicy.rego_code":      optional,
		"AlphaPolicy.enabled":        optional,
		"AlphaPolicy.create_time":    optional,
		"AlphaPolicy.update_time":    optional,
		"AlphaPolicies":              says("A page of admission policies."),
		"AlphaEvaluation":            says("A service instance that is to be admitted."),
		"AlphaInstance":              says("A service instance."),
		"AlphaAdmitted":              says("A service instance that was admitted."),
		"AlphaAdmitted.status":       {Schema: admissionStatus},
		"AlphaHealth":                says("The API answers."),
		"AlphaHealth.status":         {Schema: schema{Enum: []any{"ok"}}},
		"AlphaError":                 says("What went wrong."),
	}
}

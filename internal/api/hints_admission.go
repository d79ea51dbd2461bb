package api

import (
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

func admissionHints() map[string]hint {
	optional := func(text string) hint { return hint{Schema: schema{Description: text}, Optional: true} }
	level := schema{Description: "The level: Global policies run first, User policies last.", Enum: openapi.OneOfTexts(policy.Levels...)}
	mode := schema{Description: "enforce, or shadow for a policy whose decision is recorded and has no effect.", Enum: openapi.OneOfTexts(policy.Enforce, policy.Shadow)}
	priority := schema{Description: "A lower number runs first within a level. Unique per level and owner.", Minimum: openapi.N(0)}
	status := schema{Description: "MODIFIED when a policy changed the payload.", Enum: openapi.OneOfTexts(admission.Approved, admission.Modified)}
	relaxed := func(s schema) hint { return hint{Schema: s, Optional: true} }
	all := map[string]hint{
		"AdmissionDraft":  says("An admission policy as its author sends it."),
		"AdmissionChange": says("What replaces an admission policy's matching criteria, priority and code. Criteria that are absent are cleared, all else stays."),
		"AdmissionPolicy": says("A registered admission policy."),
		"AdmissionID":     says("Names the policy that was made."),

		"AdmissionPolicyPage":             says("A page of admission policies."),
		"AdmissionPolicyPage.items":       says("Admission policies by id."),
		"AdmissionPolicyPage.next_cursor": nextCursor,

		"AdmissionEffect":              says("A policy as admission policies patched it."),
		"AdmissionEffect.status":       {Schema: status},
		"AdmissionEffect.tier":         {Schema: tier},
		"AdmissionEffect.priority":     {Schema: priority},
		"AdmissionEffect.default_deny": {Schema: defaultDeny},

		"Evaluation":           says("A request that is to be admitted."),
		"Evaluation.user_id":   optional("Who asks."),
		"Evaluation.tenant_id": optional("The tenant of who asks."),
		"Admitted":             says("A request that was admitted."),
		"Admitted.status":      {Schema: status},
		"Provider":             says("The provider that was chosen, and from what."),
		"ProviderConstraints":  says("What bounds the choice of a provider."),
		"Explanation":          says("What each admission policy did."),
		"Deciding":             says("The admission policy that decided."),

		"AlphaPolicy":                says("An admission policy as clients of v1alpha1 know it."),
		"AlphaPolicy.path":           optional("policies/ and the id."),
		"AlphaPolicy.id":             optional("The id. In a request only the query gives it."),
		"AlphaPolicy.display_name":   relaxed(schema{Description: "Its name, unique per policy_type.", MaxLength: openapi.N(policy.MaxAdmissionName)}),
		"AlphaPolicy.description":    optional("What it is for."),
		"AlphaPolicy.policy_type":    relaxed(schema{Description: "The level; it never changes.", Enum: []any{"GLOBAL", "USER"}}),
		"AlphaPolicy.label_selector": optional("Labels of the requests it judges; all must be equal. The label service_type is the request's service type."),
		"AlphaPolicy.priority":       relaxed(schema{Description: "A lower number runs first, unique per policy_type.", Minimum: openapi.N(0)}),
		"AlphaPolicy.rego_code":      optional("Its code, Rego v1."),
		"AlphaPolicy.enabled":        optional("Whether it judges."),
		"AlphaPolicy.create_time":    optional("When it was made, by the log's clock."),
		"AlphaPolicy.update_time":    optional("When it changed last, by the log's clock."),
		"AlphaPolicies":              says("A page of admission policies."),
		"AlphaEvaluation":            says("A service instance that is to be admitted."),
		"AlphaInstance":              says("A service instance."),
		"AlphaAdmitted":              says("A service instance that was admitted."),
		"AlphaAdmitted.status":       {Schema: status},
		"AlphaHealth":                says("The API answers."),
		"AlphaHealth.status":         {Schema: schema{Enum: []any{"ok"}}},
		"AlphaError":                 says("What went wrong."),
	}
	for _, owner := range []string{"AdmissionDraft", "AdmissionChange", "AdmissionPolicy"} {
		needed := owner == "AdmissionPolicy"
		put := func(name string, s schema) { all[owner+"."+name] = hint{Schema: s, Optional: !needed} }
		put("name", schema{Description: "Its name, unique per level and owner; it never changes.", MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxAdmissionName)})
		put("description", schema{Description: "What it is for.", MaxLength: openapi.N(policy.MaxAdmissionDescription)})
		put("policy_type", level)
		if !needed { // any case is understood
			put("policy_type", schema{Description: level.Description, Pattern: "^([Gg][Ll][Oo][Bb][Aa][Ll]|[Tt][Ee][Nn][Aa][Nn][Tt]|[Uu][Ss][Ee][Rr])$", Examples: []any{"Tenant"}})
		}
		put("tenant_id", schema{Description: "The tenant that a Tenant or User policy is for; everybody when absent."})
		put("user_id", schema{Description: "The user that a User policy is for; everybody when absent."})
		put("service_type", schema{Description: "The service type of the requests it judges; any when absent."})
		put("label_selector", schema{Description: "Labels of the requests it judges; all must be equal."})
		put("priority", priority)
		put("enabled", schema{Description: "Whether it judges."})
		put("mode", mode)
		put("rego_code", schema{Description: "Its code, Rego v1."})
		put("test_cases", schema{Description: "Requests and what the policy must make of them before it goes live."})
		for _, name := range []string{"name", "policy_type", "rego_code"} {
			if owner == "AdmissionDraft" || owner == "AdmissionChange" && name == "rego_code" {
				h := all[owner+"."+name]
				h.Optional = false
				all[owner+"."+name] = h
			}
		}
	}
	return all
}

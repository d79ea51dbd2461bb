package api

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

// alphaFaults describes the errors of a v1alpha1 route: one form for every
// status.
func (d *describer) alphaFaults(op *openapi.Operation, r Route) {
	statuses := []int{http.StatusBadRequest, http.StatusInternalServerError}
	if r.Body != nil {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	switch {
	case r.ID == "alphaEvaluateRequest":
		statuses = append(statuses, http.StatusNotAcceptable, http.StatusConflict, http.StatusServiceUnavailable)
	case r.Method != http.MethodGet:
		if r.Pattern == patternAlpha {
			statuses = append(statuses, http.StatusNotFound)
		}
		statuses = append(statuses, http.StatusConflict, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	case r.Pattern == patternAlpha:
		statuses = append(statuses, http.StatusNotFound, http.StatusServiceUnavailable)
	}
	for _, m := range accessProblems(r) {
		if status := d.meanings[m].status; !slices.Contains(statuses, status) {
			statuses = append(statuses, status)
		}
	}
	for _, status := range statuses {
		var headers []string
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			headers = append(headers, "Retry-After")
		}
		op.Responses[strconv.Itoa(status)] = openapi.Response{
			Description: http.StatusText(status), Headers: d.headers(headers),
			Content: map[string]openapi.Media{mediaProblem: {Schema: &schema{AllOf: []*schema{
				d.types.Of(resource.AlphaError{}),
				{Properties: openapi.Properties{{Name: "status", Schema: &schema{Const: status}}}},
			}}}},
		}
	}
}

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
		"AdmissionID.id":  says("Its id."),

		"AdmissionPolicy.id":         says("Its id, a DNS label; a UUID when it was made here."),
		"AdmissionPolicy.version":    says("The log sequence of its last change; 0 in a dry run."),
		"AdmissionPolicy.created_at": logTime("When it was made"),
		"AdmissionPolicy.updated_at": logTime("When it changed last"),
		"AdmissionPolicy.created_by": says("Who wrote it as it is."),

		"AdmissionPolicyPage":             says("A page of admission policies."),
		"AdmissionPolicyPage.items":       says("Admission policies by id."),
		"AdmissionPolicyPage.next_cursor": nextCursor,

		"DryRun.admission":                 says("The policy as admission policies would patch it, which is what all else is about; absent when they leave it as it is."),
		"AdmissionEffect":                  says("A policy as admission policies patched it."),
		"AdmissionEffect.status":           {Schema: status},
		"AdmissionEffect.snapshot_version": says("The version of the set of admission policies: the log sequence of its last change."),
		"AdmissionEffect.selector":         says("Whom it would be for."),
		"AdmissionEffect.tier":             {Schema: tier},
		"AdmissionEffect.priority":         {Schema: priority},
		"AdmissionEffect.default_deny":     {Schema: defaultDeny},
		"AdmissionEffect.rules":            says("Its rules."),

		"Evaluation":                     says("A request that is to be admitted."),
		"Evaluation.request_payload":     says("The payload. Its service_type and metadata.labels choose the policies."),
		"Evaluation.user_id":             optional("Who asks."),
		"Evaluation.tenant_id":           optional("The tenant of who asks."),
		"Admitted":                       says("A request that was admitted."),
		"Admitted.request_payload":       says("The payload as the policies left it."),
		"Admitted.service_provider":      says("The provider they chose, and from what."),
		"Admitted.status":                {Schema: status},
		"Admitted.explain":               says("What each policy did, when that was asked for."),
		"Provider":                       says("The provider that was chosen, and from what."),
		"Provider.value":                 says("Its name; empty when none was chosen."),
		"Provider.constraints":           says("What bounds the choice."),
		"ProviderConstraints":            says("What bounds the choice of a provider."),
		"ProviderConstraints.allow_list": says("It is one of these."),
		"ProviderConstraints.patterns":   says("It matches all of these (RE2)."),
		"Explanation":                    says("What each admission policy did."),
		"Explanation.snapshot_version":   says("The version of the set of policies: the log sequence of its last change."),
		"Explanation.steps":              says("Every policy in the order of the chain: whether it matched or why not, its decision, its constraints, its patch as a diff, its provider and its time."),
		"Deciding":                       says("The admission policy that decided."),
		"Deciding.id":                    says("Its id."),
		"Deciding.name":                  says("Its name."),

		"AlphaPolicy":                              says("An admission policy as clients of v1alpha1 know it."),
		"AlphaPolicy.path":                         optional("policies/ and the id."),
		"AlphaPolicy.id":                           optional("The id. In a request only the query gives it."),
		"AlphaPolicy.display_name":                 relaxed(schema{Description: "Its name, unique per policy_type.", MaxLength: openapi.N(policy.MaxAdmissionName)}),
		"AlphaPolicy.description":                  optional("What it is for."),
		"AlphaPolicy.policy_type":                  relaxed(schema{Description: "The level; it never changes.", Enum: []any{"GLOBAL", "USER"}}),
		"AlphaPolicy.label_selector":               optional("Labels of the requests it judges; all must be equal. The label service_type is the request's service type."),
		"AlphaPolicy.priority":                     relaxed(schema{Description: "A lower number runs first, unique per policy_type.", Minimum: openapi.N(0)}),
		"AlphaPolicy.rego_code":                    optional("Its code, Rego v1."),
		"AlphaPolicy.enabled":                      optional("Whether it judges."),
		"AlphaPolicy.create_time":                  optional("When it was made, by the log's clock."),
		"AlphaPolicy.update_time":                  optional("When it changed last, by the log's clock."),
		"AlphaPolicies":                            says("A page of admission policies."),
		"AlphaPolicies.policies":                   says("Policies, in the order that was asked for."),
		"AlphaPolicies.next_page_token":            says("The page_token of the next page; absent on the last."),
		"AlphaEvaluation":                          says("A service instance that is to be admitted."),
		"AlphaEvaluation.service_instance":         says("The service instance."),
		"AlphaInstance":                            says("A service instance."),
		"AlphaInstance.spec":                       says("Its specification. Its service_type and metadata.labels choose the policies."),
		"AlphaAdmitted":                            says("A service instance that was admitted."),
		"AlphaAdmitted.evaluated_service_instance": says("The instance as the policies left it."),
		"AlphaAdmitted.selected_provider":          says("The provider they chose; empty when none."),
		"AlphaAdmitted.status":                     {Schema: status},
		"AlphaAdmitted.explain":                    says("What each policy did, when that was asked for."),
		"AlphaHealth":                              says("The API answers."),
		"AlphaHealth.status":                       {Schema: schema{Description: "ok.", Enum: []any{"ok"}}},
		"AlphaHealth.path":                         says("What was asked."),
		"AlphaError":                               says("What went wrong."),
		"AlphaError.type":                          says("The kind of error, for programs; about:blank for an evaluation."),
		"AlphaError.status":                        says("The HTTP status."),
		"AlphaError.title":                         says("The kind of error in words. Of an evaluation it names the policy."),
		"AlphaError.detail":                        says("What went wrong this time."),
		"AlphaError.instance":                      says("Not used."),
		"AlphaError.explain":                       says("What each policy did, when that was asked for."),
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

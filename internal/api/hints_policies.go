package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

func ruleHints() map[string]hint {
	cidr := hint{Schema: schema{Format: "cidr", Examples: []any{"10.0.0.0/8"}}}
	port := hint{Schema: schema{Minimum: openapi.N(1), Maximum: openapi.N(65535), Examples: []any{5432}}}
	selector := hint{Schema: schema{
		MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxSelectorText), Examples: []any{"role=web,!retired"},
	}}
	somePorts := openapi.Properties{{Name: "ports", Schema: &schema{}}}
	return map[string]hint{
		"Ports":      says("An inclusive range of ports. Rules for tcp, udp and sctp need it."),
		"Ports.from": port,
		"Ports.to":   port,
		"Rule": {Schema: schema{
			Description: "One line of a policy. Where its protocol is tcp, udp or sctp it needs ports; for icmp and any it has none.",
			If: &schema{Properties: openapi.Properties{
				{Name: "protocol", Schema: &schema{Enum: openapi.OneOfTexts(policy.TCP, policy.UDP, policy.SCTP)}},
			}},
			Then: &schema{Properties: somePorts, Required: []string{"ports"}},
			Else: &schema{Not: &schema{Properties: somePorts, Required: []string{"ports"}}},
		}},
		"Rule.action":               {Schema: schema{Enum: openapi.OneOfTexts(policy.Allow, policy.Deny, policy.Log, policy.Pass, policy.Redirect)}},
		"Rule.protocol":             {Schema: schema{Enum: openapi.OneOfTexts(policy.TCP, policy.UDP, policy.SCTP, policy.ICMP, policy.Any)}},
		"Rule.source_cidr":          cidr,
		"Rule.destination_cidr":     cidr,
		"Rule.source_selector":      selector,
		"Rule.destination_selector": selector,
		"Rule.proxy_port":           {Schema: schema{Minimum: openapi.N(1), Maximum: openapi.N(65535), Examples: []any{10080}}},
		"Rule.listener_priority":    {Schema: schema{Minimum: openapi.N(1), Maximum: openapi.N(policy.MaxListenerPriority)}},
		"Rule.auth":                 {Schema: schema{Enum: openapi.OneOfTexts(policy.AuthRequired, policy.AuthDisabled)}},
		"Rule.direction":            {Schema: schema{Enum: openapi.OneOfTexts(policy.Ingress, policy.Egress)}},
		"Selector":                  says("The nodes that take part in a policy: those that match either side."),
		"Selector.source":           selector,
		"Selector.destination":      selector,
	}
}

func draftHints() map[string]hint {
	return map[string]hint{
		"Draft":              says("A policy to publish."),
		"Draft.slug":         {Schema: slug},
		"Draft.display_name": {Schema: displayName},
		"Draft.tier":         {Schema: tier},
		"Draft.priority":     {Schema: priority},
		"Draft.default_deny": {Schema: defaultDeny},
		"Draft.mode":         {Schema: enforcement},
		"Draft.rules":        {Schema: rules},

		"Patch":                      says("What a new revision changes; the rest is inherited from the head."),
		"Patch.display_name":         {Schema: displayName},
		"Patch.tier":                 {Schema: schema{Description: tier.Description + " Null: set no longer.", Type: []string{"string", "null"}, Enum: append(openapi.OneOfTexts(policy.Admin, policy.Normal, policy.Baseline), nil)}, Optional: true},
		"Patch.priority":             {Schema: schema{Description: priority.Description + " Null: set no longer.", Type: []string{"integer", "null"}, Minimum: openapi.N(0), Maximum: openapi.N(policy.MaxPriority)}, Optional: true},
		"Patch.default_deny":         {Schema: schema{Description: defaultDeny.Description + " Null: true.", Type: []string{"boolean", "null"}}, Optional: true},
		"Patch.mode":                 {Schema: schema{Description: enforcement.Description + " Null: enforce.", Type: []string{"string", "null"}, Enum: append(openapi.OneOfTexts(policy.Enforce, policy.Audit), nil)}, Optional: true},
		"Patch.rules":                {Schema: rules},
		"Patch.expected_revision_id": {Schema: schema{Type: []string{"string", "null"}, Format: "uuid"}},

		"Preview":              says("A revision that is not to be published."),
		"Preview.tier":         {Schema: tier},
		"Preview.priority":     {Schema: priority},
		"Preview.default_deny": {Schema: defaultDeny},
		"Preview.mode":         {Schema: enforcement},
		"Preview.rules":        {Schema: rules},

		"NewPreview":              says("A policy that is not to be published."),
		"NewPreview.slug":         {Schema: schema{Pattern: slug.Pattern, MaxLength: slug.MaxLength, Examples: slug.Examples}},
		"NewPreview.display_name": {Schema: schema{MaxLength: displayName.MaxLength}},
		"NewPreview.tier":         {Schema: tier},
		"NewPreview.priority":     {Schema: priority},
		"NewPreview.default_deny": {Schema: defaultDeny},
		"NewPreview.mode":         {Schema: enforcement},
		"NewPreview.rules":        {Schema: rules},
	}
}

// inLists is a member of the head that a list, which leaves the head out, has
// beside it.
func inLists(s schema) hint {
	s.Description += " Lists have it here; elsewhere the head has it."
	return hint{Schema: s}
}

func policyHints() map[string]hint {
	return map[string]hint{
		"Policy":              says("A policy. Lists leave its head out, and say where it stands among others."),
		"Policy.slug":         {Schema: slug},
		"Policy.display_name": {Schema: displayName},
		"Policy.tier":         inLists(tier),
		"Policy.priority":     inLists(priority),
		"Policy.default_deny": inLists(defaultDeny),
		"Policy.mode":         inLists(enforcement),

		"Revision":                says("One published state of a policy. Revisions never change."),
		"Revision.tier":           {Schema: tier},
		"Revision.priority":       {Schema: priority},
		"Revision.default_deny":   {Schema: defaultDeny},
		"Revision.mode":           {Schema: enforcement},
		"Revision.rules":          {Schema: rules},
		"Revision.created_by":     {Schema: schema{MaxLength: openapi.N(policy.MaxCreatedBy)}},
		"Revision.correlation_id": {Schema: schema{MaxLength: openapi.N(policy.MaxCreatedBy)}},

		"Diff":           says("The change from one revision's rules to another's; lists are in canonical order."),
		"OrderChange":    says("Tier, priority, default_deny and mode of both revisions."),
		"Order":          says("Where a policy's rules stand among those of others."),
		"Order.tier":     {Schema: tier},
		"Order.mode":     {Schema: enforcement},
		"Order.priority": {Schema: priority},
		"Modified":       says("One rule that does something else than before."),

		"DryRun":                      says("What a revision would do, were it published now."),
		"DryRun.matched_node_ids":     {Schema: schema{Items: &nodeID}},
		"DryRun.unreachable_node_ids": {Schema: schema{Items: &nodeID}},

		"PolicyPage":               says("A page of policies."),
		"PolicyPage.items":         says("Policies by id, without their heads."),
		"PolicyPage.next_cursor":   nextCursor,
		"RevisionPage":             says("A page of revisions."),
		"RevisionPage.items":       says("Revisions, newest first."),
		"RevisionPage.next_cursor": nextCursor,
	}
}

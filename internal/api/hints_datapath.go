package api

import "github.com/edictdev/edict/internal/api/openapi"

func datapathHints() map[string]hint {
	direction := hint{Schema: schema{Description: "Which way a flow begins, seen from the node.", Enum: []any{"egress", "ingress"}}}
	verdict := hint{Schema: schema{Description: "What happens to the flow.", Enum: []any{"allow", "deny", "redirect"}}}
	all := map[string]hint{
		"Datapath":             says("A node's table. A flow is looked up among the entries of its peer's identity and among those of identity 0: the higher precedence wins. Without an entry it is denied."),
		"Datapath.node_id":     {Schema: nodeID},
		"Datapath.fingerprint": {Schema: schema{Pattern: fingerprint.Pattern, MinLength: fingerprint.MinLength, MaxLength: fingerprint.MaxLength, Examples: fingerprint.Examples}},

		"Refused":         says("A table that was refused: the node keeps its last good one."),
		"Refused.node_id": {Schema: nodeID},
		"Refused.code":    {Schema: schema{Enum: []any{CodeTooManyEntries, CodeTooManyLevels}}},

		"Identity": says("A kind of peer. Without members, it is the addresses of its CIDR that no node of the project owns and no longer CIDR of the table holds."),

		"Member":           says("A node of an identity."),
		"Member.node_id":   {Schema: nodeID},
		"Member.addresses": {Schema: addresses},

		"Entry":           says("A line of a table."),
		"Entry.direction": direction,
		"Entry.protocol":  {Schema: schema{Enum: []any{"tcp", "udp", "sctp", "icmp", "any"}}},
		"Entry.prefix":    {Schema: schema{Maximum: openapi.N(16)}},
		"Entry.verdict":   verdict,
		"Entry.auth":      {Schema: schema{Enum: []any{"required"}}},

		"RuleRef":       says("A rule, by where its author wrote it."),
		"RuleRef.index": {Schema: schema{Minimum: openapi.N(0)}},

		"PlacedRule": says("A rule, its place among those of a node, and what it says there."),

		"NodePolicies":         says("The rules of the policies that match a node, as one list: the first that matches a flow decides."),
		"NodePolicies.node_id": {Schema: nodeID},

		"NodeRule":           says("A rule in one direction, seen from the node."),
		"NodeRule.direction": direction,

		"Default":           says("What happens to flows of a direction that no rule decides."),
		"Default.direction": direction,
		"Default.verdict":   {Schema: schema{Enum: []any{"allow", "deny"}}},
		"PolicyRef":         says("A policy, by id and slug."),
		"PolicyRef.slug":    {Schema: slug},

		"FlowVerdict":         says("What happens to one flow, and why."),
		"FlowVerdict.verdict": verdict,

		"FlowChanges":          says("What a revision would do to flows of the nodes that the policy matches before or after."),
		"NodeCount":            says("How many nodes, and the first of them."),
		"FlowChange":           says("A flow with another verdict."),
		"FlowChange.node_id":   {Schema: nodeID},
		"FlowChange.direction": direction,
		"FlowChange.protocol":  {Schema: schema{Enum: []any{"tcp", "udp", "sctp", "icmp"}}},
		"FlowDecision":         says("What happens to a flow, and which rule says so."),
		"FlowDecision.verdict": verdict,
		"FlowDecision.auth":    {Schema: schema{Enum: []any{"required"}}},
		"FlowRule":             says("A rule, by where its author wrote it, or would."),
		"FlowRule.index":       {Schema: schema{Minimum: openapi.N(0)}},

		"Considered": says("A rule that was asked, or one that does not apply to the node and stands among them."),
	}
	for _, name := range []string{"PlacedRule", "NodeRule", "Considered"} {
		all[name+".index"] = hint{Schema: schema{Minimum: openapi.N(0)}}
		all[name+".slug"] = hint{Schema: schema{Pattern: slug.Pattern, MinLength: slug.MinLength, MaxLength: slug.MaxLength, Examples: slug.Examples}}
		all[name+".tier"] = hint{Schema: schema{Enum: tier.Enum}}
		all[name+".priority"] = hint{Schema: schema{Minimum: priority.Minimum, Maximum: priority.Maximum, Examples: priority.Examples}}
	}
	return all
}

// datapathCodes are what a table or a question about one may meet.
func datapathCodes() map[string]string {
	return map[string]string{
		CodeTooManyEntries:   "the node's table would have more entries than it may; the node keeps its last good one",
		CodeTooManyLevels:    "the node's rules stand at more levels than a precedence tells apart; the node keeps its last good table",
		CodeUnknownDirection: "a direction is neither egress nor ingress",
	}
}

package api

import "github.com/edictdev/edict/internal/api/openapi"

func datapathHints() map[string]hint {
	direction := hint{Schema: schema{Description: "Which way a flow begins, seen from the node.", Enum: []any{"egress", "ingress"}}}
	verdict := hint{Schema: schema{Description: "What happens to the flow.", Enum: []any{"allow", "deny", "redirect"}}}
	return map[string]hint{
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

		"FlowVerdict":         says("What happens to one flow, and why."),
		"FlowVerdict.verdict": verdict,

		"Considered":       says("A rule that was asked."),
		"Considered.index": {Schema: schema{Minimum: openapi.N(0)}},
	}
}

// datapathCodes are what a table or a question about one may meet.
func datapathCodes() map[string]string {
	return map[string]string{
		CodeTooManyEntries:   "the node's table would have more entries than it may; the node keeps its last good one",
		CodeTooManyLevels:    "the node's rules stand at more levels than a precedence tells apart; the node keeps its last good table",
		CodeUnknownDirection: "a direction is neither egress nor ingress",
	}
}

package api

import "github.com/edictdev/edict/internal/api/openapi"

func datapathHints() map[string]hint {
	direction := hint{Schema: schema{Description: "Which way a flow begins, seen from the node.", Enum: []any{"egress", "ingress"}}}
	verdict := hint{Schema: schema{Description: "What happens to the flow.", Enum: []any{"allow", "deny", "redirect"}}}
	return map[string]hint{
		"Datapath":             says("A node's table. A flow is looked up among the entries of its peer's identity and among those of identity 0: the higher precedence wins. Without an entry it is denied."),
		"Datapath.node_id":     {Schema: nodeID},
		"Datapath.version":     says("The log sequence at which the table was read. It is not part of the ETag."),
		"Datapath.fingerprint": {Schema: schema{Description: "SHA-256, in base64, of the bytes {\"identities\":…,\"entries\":…} as they stand here.", Pattern: fingerprint.Pattern, MinLength: fingerprint.MinLength, MaxLength: fingerprint.MaxLength, Examples: fingerprint.Examples}},
		"Datapath.identities":  says("The kinds of peer that the entries tell apart, by number."),
		"Datapath.entries":     says("By direction, identity, protocol and port."),
		"Datapath.warnings":    says("What was assumed, a fault a policy; absent when nothing was."),
		"Datapath.refused":     says("Why this is an older table than the facts ask for; absent when it is not."),

		"Refused":         says("A table that was refused: the node keeps its last good one."),
		"Refused.node_id": {Schema: nodeID},
		"Refused.code":    {Schema: schema{Description: "Which limit it meets.", Enum: []any{CodeTooManyEntries, CodeTooManyLevels}}},
		"Refused.detail":  says("How far it goes beyond, and what to do."),
		"Refused.as_of":   says("The log sequence of the facts that the last good table is made of; absent when the node had none."),

		"Identity":         says("A kind of peer. Without members, it is the addresses of its CIDR that no node of the project owns and no longer CIDR of the table holds."),
		"Identity.id":      says("Its number in this table, from 1. Another table may number it otherwise."),
		"Identity.labels":  says("The labels that its members have."),
		"Identity.cidrs":   says("The CIDRs of rules that hold an address of each member; or the block's own."),
		"Identity.members": says("The nodes of the project that it is, by id."),

		"Member":           says("A node of an identity."),
		"Member.node_id":   {Schema: nodeID},
		"Member.addresses": {Schema: addresses},

		"Entry":            says("A line of a table."),
		"Entry.direction":  direction,
		"Entry.identity":   says("The peer's identity; 0: any peer."),
		"Entry.protocol":   {Schema: schema{Description: "The flow's protocol.", Enum: []any{"tcp", "udp", "sctp", "icmp", "any"}}},
		"Entry.port":       says("The first port of the prefix."),
		"Entry.prefix":     {Schema: schema{Description: "How many leading bits of the port count; 0: every port.", Maximum: openapi.N(16)}},
		"Entry.verdict":    verdict,
		"Entry.precedence": says("Compared between the entry of a peer's identity and that of any."),
		"Entry.proxy_port": says("Of a redirect: the port of the node's proxy."),
		"Entry.auth":       {Schema: schema{Description: "Whether both ends must prove who they are; absent when not.", Enum: []any{"required"}}},
		"Entry.rule":       says("The rule that decided; null where the default did."),

		"RuleRef":          says("A rule, by where its author wrote it."),
		"RuleRef.policy":   uuidOf("the policy"),
		"RuleRef.revision": uuidOf("the revision"),
		"RuleRef.index":    {Schema: schema{Description: "Its index in the revision's rules, as written.", Minimum: openapi.N(0)}},

		"FlowVerdict":            says("What happens to one flow, and why."),
		"FlowVerdict.verdict":    verdict,
		"FlowVerdict.rule":       says("The rule that decided; null where the default did."),
		"FlowVerdict.reason":     says("Why the default decided; absent where a rule did."),
		"FlowVerdict.considered": says("The rules that were asked, in their order; the last one decided, unless rule is null."),
		"FlowVerdict.entry":      says("The entry of the table that carries the verdict; null where the absence of one does."),
		"FlowVerdict.refused":    says("Why an older table answered than the facts ask for; absent when none did."),

		"Considered":          says("A rule that was asked."),
		"Considered.policy":   uuidOf("the policy"),
		"Considered.revision": uuidOf("the revision"),
		"Considered.index":    {Schema: schema{Description: "Its index in the revision's rules, as written.", Minimum: openapi.N(0)}},
		"Considered.matched":  says("Whether the flow is one of the rule's."),
		"Considered.reason":   says("Why it did not decide, or that it did."),
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

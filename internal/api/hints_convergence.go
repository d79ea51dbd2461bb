package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

func convergenceHints() map[string]hint {
	return map[string]hint{
		"Convergence":          says("How far all nodes have come, as far as they report."),
		"Convergence.desired":  count,
		"Convergence.applied":  count,
		"Convergence.reported": count,
		"Lagging":              says("A node that has not applied what it should."),
		"Lagging.node_id":      {Schema: nodeID},

		"Applied":             says("What a node reports that it applied."),
		"Applied.event_id":    {Schema: schema{Pattern: "^[0-9]+$"}},
		"Applied.fingerprint": fingerprint,
		"Applied.outcome":     {Schema: schema{Enum: openapi.OneOfTexts(policy.Outcomes...)}},
		"Applied.reason":      {Schema: schema{MaxLength: openapi.N(policy.MaxReason)}},
		"Rollout":             says("How far a policy has come, as far as nodes report."),
		"Rollout.desired":     count,
		"Rollout.applied":     count,
		"Rollout.dropped":     count,

		"Refusal":            says("A node that reported that it does not have in force what it was sent."),
		"Refusal.node_id":    {Schema: nodeID},
		"Refusal.outcome":    {Schema: schema{Enum: openapi.OneOfTexts(policy.Outcomes[1:]...)}},
		"NotApplied":         says("Nodes whose last report says that something is not applied, by outcome."),
		"NotApplied.refused": count,
		"NotApplied.stale":   count,
		"NotApplied.drift":   count,
	}
}

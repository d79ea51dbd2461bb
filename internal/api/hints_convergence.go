package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

var percent = schema{Minimum: openapi.N(0), Maximum: openapi.N(policy.MaxPercent)}

func convergenceHints() map[string]hint {
	return map[string]hint{
		"Convergence":          says("How far all nodes have come, as far as they report."),
		"Convergence.desired":  count,
		"Convergence.applied":  count,
		"Convergence.reported": count,
		"ByState":              says("Nodes, counted by where they stand."),
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
		"Arrival":             says("How a change of a policy arrived at its nodes."),
		"Arrival.nodes":       count,
		"ArrivalPoint":        says("How many nodes had a change so long after its commit."),
		"ArrivalPoint.nodes":  count,

		"Reached":                       says("What the nodes report that a rollout has reached."),
		"Waves":                         says("A staged revision, and how far its rollout has come."),
		"Waves.phase":                   {Schema: schema{Enum: openapi.OneOfTexts(projector.RolloutPhases...)}},
		"Waves.opened":                  count,
		"Waves.on_refusal":              {Schema: schema{Enum: openapi.OneOfTexts(policy.OnRefusalStop, policy.OnRefusalAbort)}},
		"Promotion.on_refusal":          {Schema: schema{Enum: openapi.OneOfTexts(policy.OnRefusalStop, policy.OnRefusalAbort)}},
		"Reached.nodes":                 count,
		"Reached.applied":               count,
		"Reached.refused":               count,
		"Waves.min_applied_percent":     {Schema: percent},
		"Waves.max_refused_percent":     {Schema: percent},
		"Promotion":                     says("That the staged revision is to become the head."),
		"Promotion.waves":               {Schema: schema{MaxItems: openapi.N(policy.MaxWaves)}},
		"Promotion.min_applied_percent": {Schema: percent},
		"Promotion.max_refused_percent": {Schema: percent},
		"NextWave":                      says("The wave to open."),
		"NextWave.wave":                 {Schema: schema{Minimum: openapi.N(1), Maximum: openapi.N(policy.MaxWaves + 1)}},
		"Abort":                         says("That a rollout is to end."),
		"Abort.reason":                  {Schema: schema{MaxLength: openapi.N(policy.MaxReason)}},

		"Audited":            says("What nodes counted for a policy in audit mode."),
		"AuditedByDefault":   says("Packets that no rule would have allowed."),
		"AuditCount":         says("What a node counted for a policy in audit mode."),
		"Refusal":            says("A node that reported that it does not have in force what it was sent."),
		"Refusal.node_id":    {Schema: nodeID},
		"Refusal.outcome":    {Schema: schema{Enum: openapi.OneOfTexts(policy.Outcomes[1:]...)}},
		"NotApplied":         says("Nodes whose last report says that something is not applied, by outcome."),
		"NotApplied.refused": count,
		"NotApplied.stale":   count,
		"NotApplied.drift":   count,
	}
}

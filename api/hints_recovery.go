package api

import "github.com/edictdev/edict/projector"

func recoveryHints() map[string]hint {
	return map[string]hint{
		"Fact":        says("One of the things that the digest covers, by kind and then by key."),
		"Fact.kind":   {Schema: schema{Description: "What it is.", Enum: []any{projector.FactPolicy, projector.FactRevision, projector.FactNode, projector.FactRow}}},
		"Fact.key":    says("Names it: project/policy, policy/sequence, project/node or node/policy."),
		"Fact.values": says("What it says, by name. Of a node, rows is a hash over its labels and all its rows."),

		"SyncAskedItems":       says("What was asked of whoever announces each partition."),
		"SyncAskedItems.items": says("Partitions, but those that nobody has taken yet."),
		"SyncAsked":            says("A partition whose messages are to be compared with the rows. That is done once its mode is follow under a higher epoch."),
		"SyncAsked.partition":  says("Its number."),
		"SyncAsked.epoch":      says("Under which it was asked."),
	}
}

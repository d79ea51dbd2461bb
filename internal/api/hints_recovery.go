package api

import "github.com/edictdev/edict/internal/projector"

func recoveryHints() map[string]hint {
	return map[string]hint{
		"Fact":        says("One of the things that the digest covers, by kind and then by key."),
		"Fact.kind":   {Schema: schema{Description: "What it is.", Enum: []any{projector.FactPolicy, projector.FactRevision, projector.FactNode, projector.FactRow, projector.FactAdmission, projector.FactPrincipal, projector.FactRete, projector.FactArtifacts, projector.FactRelease}}},
		"Fact.key":    says("Names it: project/policy, policy/sequence, project/node or node/policy."),
		"Fact.values": says("What it says, by name. Of a node, rows is a hash over its labels and all its rows."),

		"SnapshotItems":       says("The checkpoints of the log."),
		"SnapshotItems.items": says("Checkpoints, newest first."),
		"Snapshot":            says("A copy of a read model that a worker may start from."),
		"Snapshot.name":       says("Its name in the object store EDICT_SNAPSHOTS."),
		"Snapshot.seq":        says("The log sequence it stands at."),
		"Snapshot.rows":       says("Rows it holds, of all nodes together."),
		"Snapshot.digest":     {Schema: schema{Description: "Its digest: that of any worker at the same sequence.", Pattern: "^[0-9a-f]{64}$"}},
		"Snapshot.schema":     says("The layout of the store; only a binary of the same one starts from it."),
		"Snapshot.bytes":      says("Its size, compressed."),
		"Snapshot.created_at": says("When it was made, by the clock of the worker that did."),
		"Snapshot.worker":     says("Which worker that was."),
	}
}

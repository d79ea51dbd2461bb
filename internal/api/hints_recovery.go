package api

import "github.com/edictdev/edict/internal/projector"

func recoveryHints() map[string]hint {
	return map[string]hint{
		"Fact":      says("One of the things that the digest covers, by kind and then by key."),
		"Fact.kind": {Schema: schema{Enum: []any{projector.FactPolicy, projector.FactRevision, projector.FactNode, projector.FactRow, projector.FactAdmission, projector.FactPrincipal, projector.FactRollout, projector.FactQuota, projector.FactArchived, projector.FactRete, projector.FactArtifacts, projector.FactRelease}}},

		"SnapshotItems":       says("The checkpoints of the log."),
		"SnapshotItems.items": says("Checkpoints, newest first."),
		"Snapshot":            says("A copy of a read model that a worker may start from."),
		"LogOrigin":           says("Where a log begins that was compacted."),
		"LogOrigin.chain":     {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},
		"LogOrigin.digest":    {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},
		"Snapshot.digest":     {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},
	}
}
